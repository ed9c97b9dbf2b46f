"""The engine `python`: intents as plain typed functions (`policies/<intent>/engines/python.py`)."""
