"""From a file, the environment and flags to a `Config`. In: a path, the environment and flags as arguments.
Out: `Config`.

Precedence: flag, environment (`PDWATCH_...`), file, default. Nothing else is looked at, so the same arguments always
give the same configuration; only the file itself is read here, and secret files are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agent.config.document import MAX_FILE_BYTES, parse_inline, read_document
from agent.config.exporters import NIXL_SUFFIX
from agent.config.fields import build
from agent.config.node import Node, nearest
from agent.config.pools import ROUTER_KINDS, Exporters, Pool, PoolRole, Router, Target, same_page
from agent.config.reference import ENVIRONMENT_PREFIX, settings
from agent.config.types import Config
from agent.errors import ConfigError
from agent.model import OWN_TARGET

FLAGS = "command line"


def load_config(
    path: str | Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, str] | None = None,
    *,
    prefill: Sequence[str] = (),
    decode: Sequence[str] = (),
    routers: Sequence[str] = (),
) -> Config:
    """The configuration of a file (None: no file), with environment and flags over it.

    `overrides`: key path -> text of what flags set (`{"listen": "0.0.0.0:9838"}`). `prefill`, `decode`: URLs
    of targets, and `routers`: `KIND=URL`; any of them replaces the file's pools or router. Raises
    ConfigError, one line.
    """
    root = Node({}, "", FLAGS) if path is None else _read_file(Path(path), environ)
    root.mapping()
    _put_environment(root, environ)
    for key_path, text in (overrides or {}).items():
        _put(root, _given(key_path, text, FLAGS))
    _put_targets(root, prefill, decode, routers)
    config = build(Config, root, file=None if path is None else str(path))
    if not config.pools:
        raise root.error("pools: is required; name at least one pool with its role and targets")
    _check_names(config, root)
    return config


def config_from_flags(
    prefill: Sequence[str] = (),
    decode: Sequence[str] = (),
    routers: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Config:
    """The configuration of a command line without a file: pools `prefill` and `decode`, targets named host:port."""
    return load_config(None, environ or {}, overrides, prefill=prefill, decode=decode, routers=routers)


def config_from_names(target_names: Iterable[str]) -> Config:
    """Pools by the names of recorded targets: `prefill-*`, `decode-*`, `router-*`. The targets have no URL.

    Raises ConfigError for a name that tells no role.
    """
    groups: dict[str, list[Target]] = {"prefill": [], "decode": [], "router": []}
    names = set(target_names) - {OWN_TARGET}
    for name in sorted(names):
        group = name.partition("-")[0]
        if name == group and any(other.startswith(f"{group}-") for other in names):
            continue  # spans of a pool whose targets share one name
        if name.endswith(NIXL_SUFFIX):
            continue  # a page beside that of a target
        if group not in groups:
            raise ConfigError(
                f"recording: target {name!r} is none of prefill-*, decode-*, router-*; "
                "give its pool in a configuration (-c)"
            )
        groups[group].append(Target(name))
    roles: tuple[PoolRole, ...] = ("prefill", "decode")
    beside = {name.removesuffix(NIXL_SUFFIX) for name in names if name.endswith(NIXL_SUFFIX)}
    pools = tuple(
        Pool(
            name=role,
            role=role,
            targets=tuple(groups[role]),
            exporters=Exporters(nixl=tuple(target for target in groups[role] if target.name in beside)),
        )
        for role in roles
        if groups[role]
    )
    router = Router(kind="auto", targets=tuple(groups["router"])) if groups["router"] else None
    if not pools:
        raise ConfigError("recording: no target named prefill-* or decode-*; give the pools in a configuration (-c)")
    return Config(pools=pools, router=router)


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences about `PDWATCH_...` variables that set nothing, for `pdwatch check`.

    They are no errors: Kubernetes itself puts PDWATCH_SERVICE_HOST and PDWATCH_PORT... beside a Service named pdwatch.
    """
    known = [row.variable for row in settings() if row.variable]
    by_kubernetes = (f"{ENVIRONMENT_PREFIX}SERVICE_", f"{ENVIRONMENT_PREFIX}PORT")
    strangers = [
        name
        for name in sorted(environ)
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known and not name.startswith(by_kubernetes)
    ]
    return tuple(f"environment: {name} sets nothing; {nearest(name, known)}" for name in strangers)


def _read_file(path: Path, environ: Mapping[str, str]) -> Node:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not a text file (UTF-8)") from None
    return read_document(text, str(path), environ, str(path.parent))


def _put_environment(root: Node, environ: Mapping[str, str]) -> None:
    for row in settings():
        text = environ.get(row.variable, "") if row.variable else ""
        if text.strip():
            _put(root, _given(row.path, text, f"environment {row.variable}"))


def _given(path: str, text: str, where: str) -> Node:
    """What the environment or a flag gives: text for a single value, one line of YAML for anything else."""
    known = {row.path: row.kind for row in settings() if row.variable}
    if path not in known:
        raise ConfigError(f"{where}: {path}: unknown key; {nearest(path, known)}")
    if known[path].single:
        return Node(text, path, where)
    node = parse_inline(text, path, where)
    if isinstance(node.value, str) and known[path].many == "[]":
        # PDWATCH_ALERTING_ALERTMANAGERS=http://a:9093,http://b:9093 needs no brackets.
        return Node([Node(part.strip(), f"{path}[{i}]", where) for i, part in enumerate(text.split(","))], path, where)
    return node


def _put(root: Node, leaf: Node) -> None:
    """Set `leaf` at its path, whatever was there; sections on the way come into being."""
    node = root
    *parents, key = leaf.path.split(".")
    for name in parents:
        children = node.mapping()
        if name not in children or children[name].is_null:
            children[name] = Node({}, node.child_path(name), leaf.where)
        node = children[name]
    node.mapping()[key] = leaf


def _put_targets(root: Node, prefill: Sequence[str], decode: Sequence[str], routers: Sequence[str]) -> None:
    """Pools and router of flags, in place of the file's."""
    pools: dict[str, Node] = {}
    for role, flag, urls in (("prefill", "--prefill", prefill), ("decode", "--decode", decode)):
        if urls:
            path, where = f"pools.{role}", f"{FLAGS} {flag}"
            addresses = [Node(url, f"{path}.targets[{i}]", where) for i, url in enumerate(urls)]
            section = {
                "role": Node(role, f"{path}.role", where),
                "targets": Node(list(addresses), f"{path}.targets", where),
            }
            pools[role] = Node(dict(section), path, where)
    if pools:
        root.mapping()["pools"] = Node(pools, "pools", FLAGS)
    if routers:
        root.mapping()["router"] = _router_node(routers)


def _router_node(routers: Sequence[str]) -> Node:
    where = f"{FLAGS} --router"
    kinds: list[str] = []
    addresses: list[Node] = []
    for i, text in enumerate(routers):
        kind, separator, url = text.partition("=")
        if not separator or kind not in ROUTER_KINDS:
            hint = nearest(kind, ROUTER_KINDS)
            raise ConfigError(f"{where}: router: write KIND=URL; {hint}")
        kinds.append(kind)
        addresses.append(Node(url, f"router.targets[{i}]", where))
    if len(set(kinds)) > 1:
        raise ConfigError(f"{where}: router: all of one kind, not {' and '.join(sorted(set(kinds)))}")
    return Node(
        {"kind": Node(kinds[0], "router.kind", where), "targets": Node(addresses, "router.targets", where)},
        "router",
        where,
    )


def _check_names(config: Config, root: Node) -> None:
    """What no section can see alone: names and addresses given twice, scopes without a pool, pages without a sender."""
    names: dict[str, str] = {}
    pages: dict[tuple[str, str, str, str], str] = {}
    groups = [(f"pools.{pool.name}", pool.targets) for pool in config.pools]
    if config.router is not None:
        groups.append(("router", config.router.targets))
        if config.pool("router") is not None:
            raise _find(root, "pools", "router").error("a pool cannot be called 'router' beside a router")
    for path, targets in groups:
        for target in targets:
            node = _find(root, f"{path}.targets", target.name)
            page = same_page(target.url)
            if target.name in names:
                raise node.error(
                    f"target {target.name!r} is already in {names[target.name]}; names are unique over all pools"
                )
            if page in pages:
                raise node.error(f"the same address as target {pages[page]!r}; it would be counted twice")
            names[target.name], pages[page] = path, target.name
    scopes = ["system", *(pool.name for pool in config.pools)]
    seen: set[str] = set()
    for i, objective in enumerate(config.objectives):
        if objective.scope not in scopes:
            node = _find(root, f"objectives[{i}]", "scope")
            raise node.error(f"{objective.scope!r} is no pool; {nearest(objective.scope, scopes)}")
        if objective.name in seen:
            node = _find(root, f"objectives[{i}]", "name")
            raise node.error(f"an objective named {objective.name!r} is there already; give each its own 'name'")
        seen.add(objective.name)
    if config.alerting.sends_directly and not config.deployment:
        raise root.error("deployment: is required as soon as anything is paged; name this deployment")


def _find(root: Node, path: str, key: str) -> Node:
    """The node of `key` below `path`, or the nearest one above it that was written, for an error's place."""
    node = root
    for part in path.replace("[", ".[").split("."):
        below = node.value
        if isinstance(below, dict) and part in below:
            node = below[part]
        elif isinstance(below, list) and part.startswith("[") and int(part[1:-1]) < len(below):
            node = below[int(part[1:-1])]
    return node.value[key] if isinstance(node.value, dict) and key in node.value else node
