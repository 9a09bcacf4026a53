"""The application: command line, settings, doctor, live page, readers of decisions; laboratory."""
