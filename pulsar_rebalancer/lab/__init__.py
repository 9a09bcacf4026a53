"""The laboratory: questions to recordings and models. Nothing outside imports it; see README.md."""
