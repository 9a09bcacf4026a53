"""The live page: an HTTP server for people, beside the job."""
