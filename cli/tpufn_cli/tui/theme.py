"""Colours: one dark and one light theme. States keep the command line's colours, which follow the theme by name."""

from textual.theme import Theme

DARK = Theme(
    name="tpufn-dark",
    primary="#7aa2f7",
    secondary="#7dcfff",
    accent="#e0af68",
    foreground="#c8d0e0",
    background="#11151f",
    surface="#161b27",
    panel="#1f2635",
    success="#9ece6a",
    warning="#e0af68",
    error="#f7768e",
    dark=True,
    variables={"footer-key-foreground": "#7aa2f7", "border": "#3b4461", "footer-background": "#1f2635"},
)
LIGHT = Theme(
    name="tpufn-light",
    primary="#2557c7",
    secondary="#0f6f8c",
    accent="#9a5b00",
    foreground="#22293a",
    background="#f7f8fb",
    surface="#ffffff",
    panel="#e7eaf2",
    success="#2f7d1d",
    warning="#9a5b00",
    error="#c0273f",
    dark=False,
    variables={"footer-key-foreground": "#2557c7", "border": "#b9c1d4", "footer-background": "#e7eaf2"},
)

_DARK = {
    "green": "#9ece6a",
    "cyan": "#7dcfff",
    "yellow": "#e0af68",
    "blue": "#7aa2f7",
    "magenta": "#bb9af7",
    "red": "#f7768e",
    "dim": "#6b7693",
}
_LIGHT = {
    "green": "#2f7d1d",
    "cyan": "#0f6f8c",
    "yellow": "#8f5a00",
    "blue": "#2557c7",
    "magenta": "#7a3fb8",
    "red": "#c0273f",
    "dim": "#6f7890",
}


def ink(style: str, *, dark: bool) -> str:
    """A style of the command line (`green`, `bold green`, `dim`) in this theme's own colours."""
    palette = _DARK if dark else _LIGHT
    return " ".join(palette.get(word, word) for word in style.split())


CSS = """
Screen { background: $background; }
#top { height: 1; background: $panel; color: $foreground; }
#top > Static { width: auto; padding: 0 1; }
#top #brand { color: $primary; text-style: bold; }
#top #where { color: $text-muted; width: 1fr; min-width: 0; text-wrap: nowrap; text-overflow: ellipsis; }
#top #summary { text-align: right; }
#views { height: 1fr; }
SteadyTable {
    height: 1fr; background: $background; scrollbar-size-vertical: 1; scrollbar-background: $background;
    scrollbar-color: $border; overflow-x: hidden;
    & > .datatable--header { background: $background; color: $text-muted; text-style: none; }
    & > .datatable--cursor { background: $primary 25%; color: $foreground; text-style: none; }
    & > .datatable--odd-row, & > .datatable--even-row, & > .datatable--fixed { background: $background; }
    & > .datatable--hover { background: $panel; }
}
.panel { border-top: solid $border; border-title-color: $text-muted; background: $background; padding: 0 1; }
RichLog, VerticalScroll { scrollbar-background: $background; scrollbar-color: $border; }
#log { height: 32%; min-height: 4; max-height: 14; scrollbar-size-vertical: 1; }
.short #log { display: none; }
#outlook { height: auto; max-height: 8; min-height: 3; }
#detail { height: 1fr; scrollbar-size-vertical: 1; }
#output { height: 1fr; scrollbar-size-vertical: 1; }
JobsView #jobs-table { height: 40%; min-height: 5; }
JobsView #below { height: 1fr; }
.narrow JobsView #below { layout: vertical; }
.narrow #where { display: none; }
Footer { background: $panel; }
Dialog { align: center middle; background: $background 60%; }
Dialog > Vertical {
    width: 84; max-width: 96%; height: auto; max-height: 90%; padding: 1 2;
    background: $surface; border: round $primary; border-title-color: $primary; overflow-y: auto;
}
Dialog Static { height: auto; }
Dialog Input { margin-top: 1; }
Toast { max-width: 72; }
"""
