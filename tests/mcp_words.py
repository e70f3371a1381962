"What a client of MCP sends first, and how it asks for answers."

ME = dict(protocolVersion="2025-06-18", capabilities={}, clientInfo=dict(name="me", version="1"))
OPENING = dict(jsonrpc="2.0", id=1, method="initialize", params=ME)
BOTH = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
