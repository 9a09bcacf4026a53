"""The application: its command line, settings, analyses, modelled cluster and conformance tests."""
