"The episode on the network: OpenEnv, MCP, and the page. With `client` and `models` alone imports openenv."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "environment": "SQLEnvironment",
        "settings": "Settings",
        "app": "create_app serve serve_mcp",
        "mcp_tools": "Players make_mcp_server",
    },
    dict.fromkeys(("environment", "settings", "app", "mcp_tools"), "openenv"),
)
