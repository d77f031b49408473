"""How pages look, in light and dark; one text, since a page must stand alone wherever it is opened."""

from __future__ import annotations

from typing import Final

STYLE: Final = (
    """
:root { color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --edge: #e2e2de; --ink: #1d2126; --faint: #6a7078; --grid: #ecece8;
  --blue: #2f6fb3; --orange: #d9822b; --green: #3c9a5f; --purple: #8a5bb0; --grey: #9aa1a9; --red: #c4483f; }
@media (prefers-color-scheme: dark) { :root {
  --page: #15181c; --card: #1d2126; --edge: #32373e; --ink: #e7e9ec; --faint: #9aa1a9; --grid: #2a2f35;
  --blue: #6aa7e4; --orange: #f0a355; --green: #67c48a; --purple: #b893d8; --grey: #7c848d; --red: #e8776e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 28px 20px 60px; background: var(--page); color: var(--ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 19px; margin: 40px 0 4px; overflow-wrap: anywhere; }
h3 { font-size: 14px; margin: 0; } p { margin: 2px 0 14px; color: var(--faint); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: 5px 8px; text-align: right; border-bottom: 1px solid var(--edge); white-space: nowrap; }
th { font-weight: 600; color: var(--faint); font-size: 12px; } th:first-child, td:first-child { text-align: left; }
.topics td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 120px; }
a { color: var(--blue); }
.facts { display: flex; flex-wrap: wrap; gap: 10px; margin: 10px 0 16px; padding: 0; list-style: none; }
.facts li { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 7px 13px; }
.facts b { display: block; font-size: 17px; font-weight: 600; } .facts span { color: var(--faint); font-size: 12px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 14px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--edge); border-radius: 8px;
  padding: 12px 14px 6px; }
figcaption { display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: baseline; margin-bottom: 4px; }
figcaption span { color: var(--faint); font-size: 12px; white-space: nowrap; }
i { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 5px; }
svg { display: block; width: 100%; height: auto; }
.tick { font-size: 11px; fill: var(--faint); } .grid { stroke: var(--grid); } .mark { stroke: var(--faint); }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; } g:hover { opacity: .72; }
"""
    + "".join(
        f".{name} {{ fill: var(--{name}); background: var(--{name}); }} "
        f".{name}.line {{ fill: none; stroke: var(--{name}); }}\n"
        for name in ("blue", "orange", "green", "purple", "grey", "red")
    )
    + """
details { margin: 14px 0; } summary { cursor: pointer; color: var(--faint); }
"""
)
