"""Stayer as a tool of an assistant: `stayer mcp` speaks the Model Context Protocol on its standard
input and output.
"""
