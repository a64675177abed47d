"""A YAML file as nodes. In: the text of a file. Out: a tree of `Node`, every value with its line.

Stricter than YAML on purpose: a key given twice is an error, a date or `no` stays the text it is, and size, depth and
the number of values are bounded, so that neither a wrong file nor one built of nested aliases can exhaust the memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from agent.config.node import Node
from agent.errors import ConfigError

MAX_FILE_BYTES = 1 << 20
MAX_VALUES = 100_000
MAX_DEPTH = 32

_NULL = ("", "~", "null", "Null", "NULL")
_REFERENCE = re.compile(r"\$(?:\$|\{([^}]*)\}|\{)")
_REFERENCE_BODY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def read_document(text: str, where: str, environ: Mapping[str, str], base: str = "") -> Node:
    """The tree of `text`, with `${NAME}`, `${NAME:-default}` and `$$` in its values replaced from `environ`.

    `where` names the text in errors (a file's name), `base` is the folder that its relative paths start from.
    An empty text is an empty mapping. Raises ConfigError for what is no YAML, has a key twice, is too large
    or too deep, or names an unset variable.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        raise ConfigError(f"{where}: larger than {MAX_FILE_BYTES} bytes; this is not a configuration of pdwatch")
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_message(error, where)) from None
    if root is None:
        return Node({}, "", where, base)
    return _Converter(where, environ, base).node(root, "", 0)


def parse_inline(text: str, path: str, where: str) -> Node:
    """A value given as one line of YAML (`[16384, 262144]`) outside of any file; no `${NAME}` in it is replaced."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError:
        raise ConfigError(f"{where}: {path}: {text!r} is not valid YAML") from None
    return Node(None, path, where) if root is None else _Converter(where, None, "").node(root, path, 0)


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """`text` with `${NAME}`, `${NAME:-default}` and `$$` replaced; a `$` before anything else stays.

    The default also stands in for a variable that is set but empty. Raises ValueError naming an unset variable.
    """

    def value_of(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        body = _REFERENCE_BODY.fullmatch(match[1]) if match[1] is not None else None
        if body is None:
            raise ValueError(f"{match[0]!r} is not a variable; write ${{NAME}} or ${{NAME:-default}}, and $$ for a $")
        name, default = body[1], body[2]
        if environ.get(name):
            return environ[name]
        if default is not None:
            return str(default)
        if name in environ:
            return ""
        raise ValueError(f"environment variable {name} is not set; set it, or write ${{{name}:-default}}")

    return _REFERENCE.sub(value_of, text)


class _Loader(yaml.SafeLoader):
    """Refuses what is nested far too deep where it begins to be: reading on takes time by the square of the depth."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As PyYAML calls it for every value, which is inside all those whose call has not returned."""
        if self._depth > 2 * MAX_DEPTH:  # what is only a little too deep is refused later, by its key path
            raise yaml.MarkedYAMLError(
                problem=f"nested deeper than {MAX_DEPTH} levels",
                problem_mark=self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _Converter:
    """Turns YAML's own nodes into ours and counts them, aliases each time they are used."""

    def __init__(self, where: str, environ: Mapping[str, str] | None, base: str) -> None:
        self.where = where
        self.environ = environ
        self.base = base
        self.values = 0

    def node(self, source: yaml.Node, path: str, depth: int) -> Node:
        self.values += 1
        node = Node(None, path, self.place(source), self.base)
        if depth > MAX_DEPTH:
            raise node.error(f"nested deeper than {MAX_DEPTH} levels")
        if self.values > MAX_VALUES:
            raise node.error(f"more than {MAX_VALUES} values (aliases count each time)")
        if isinstance(source, yaml.MappingNode):
            return Node(self.mapping(source, node, depth), path, node.where, self.base)
        if isinstance(source, yaml.SequenceNode):
            items = [self.node(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(source.value)]
            return Node(items, path, node.where, self.base)
        assert isinstance(source, yaml.ScalarNode)
        return Node(self.scalar(source, node), path, node.where, self.base)

    def mapping(self, source: yaml.MappingNode, node: Node, depth: int) -> dict[str, Node]:
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key_node, value_node in source.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise node.error("a key must be a single value")
            key = str(key_node.value)
            if key_node.tag == "tag:yaml.org,2002:merge":
                for given in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                    for name, child in self.node(given, node.path, depth + 1).mapping().items():
                        merged.setdefault(name, child)
                continue
            at_key = Node(None, node.child_path(key), self.place(key_node), self.base)
            if key in own:
                raise at_key.error("given twice; keep one")
            child = self.node(value_node, at_key.path, depth + 1)
            own[key] = Node(child.value, child.path, at_key.where, self.base)
        return {**merged, **own}

    def scalar(self, source: yaml.ScalarNode, node: Node) -> str | None:
        text = str(source.value)
        plain = source.style is None
        if plain and text in _NULL:
            return None
        if not source.tag.startswith("tag:yaml.org,2002:") or source.tag.count("/"):
            raise node.error(f"the tag {source.tag} is not supported")
        if self.environ is None:
            return text
        try:
            return interpolate(text, self.environ)
        except ValueError as error:
            raise node.error(str(error)) from None

    def place(self, source: yaml.Node) -> str:
        # A value from the environment or a flag is one line: its number would say nothing.
        return self.where if self.environ is None else f"{self.where}:{source.start_mark.line + 1}"


def _yaml_message(error: yaml.YAMLError, where: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
    line = f":{mark.line + 1}" if mark is not None else ""
    return f"{where}{line}: not valid YAML: {problem}"
