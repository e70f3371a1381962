"`openenv push` asks for this file. Imported from the folder above, a clone named `sql_env` is the package inside it."

if __name__ == "sql_env":
    import sys
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    inside = Path(__file__).with_name("sql_env")
    spec = spec_from_file_location(
        __name__, inside / "__init__.py", submodule_search_locations=[str(inside)]
    )
    sys.modules[__name__] = module_from_spec(spec)  # which the import system gives on
    spec.loader.exec_module(sys.modules[__name__])
