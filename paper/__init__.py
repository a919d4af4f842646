"""The paper and the blog post: texts whose numbers come from measurements by name."""
