//! Colours, patterns and shapes of the drawings. Draws nothing by itself.

/// Colours for light and for dark; numbers and texts in the fonts of the reader's system.
pub(super) const STYLE: &str = "
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:12px;fill:#1f2933}
.h{font-size:18px;font-weight:600}
.m{fill:#5b6775}
.s{font-size:10.5px;fill:#5b6775}
.e{text-anchor:end}
.c{text-anchor:middle}
.t{font-weight:600}
.bg{fill:#fcfcfd}
.box{fill:#fff;stroke:#c5ccd5}
.line{fill:none;stroke:#9aa5b1;stroke-width:1.4}
.tip,.dot{fill:#9aa5b1}
.grid{stroke:#e4e7eb}
.wait{stroke:#7b8794;stroke-width:2;stroke-dasharray:1 4;stroke-linecap:round}
.sleep{fill:none;stroke:#a86a12;stroke-dasharray:3 2}
.box.never,.box.skipped{stroke-dasharray:4 3}
.box.failed{stroke:#c0392b;stroke-width:2}
.box.stopped{stroke:#6b57b0;stroke-width:1.5}
.planned,.never,.waiting,.backing{color:#7b8794}
.running{color:#2468b8}
.completed{color:#27825a}
.failed{color:#c0392b}
.skipped{color:#a86a12}
.stopped{color:#6b57b0}
.returned{color:#7b8794}
.bar{fill:currentColor}
.hatch{fill:none;stroke:#fcfcfd;stroke-width:2;stroke-opacity:.6}
@media (prefers-color-scheme:dark){
text{fill:#e4e7eb}
.m,.s{fill:#9aa5b1}
.bg{fill:#15191e}
.box{fill:#1f252c;stroke:#46515e}
.line{stroke:#6b7885}
.tip,.dot{fill:#6b7885}
.grid{stroke:#2a323b}
.wait{stroke:#8d99a6}
.sleep{stroke:#d9a441}
.box.failed{stroke:#ee7d70}
.box.stopped{stroke:#a797e6}
.planned,.never,.waiting,.backing,.returned{color:#8d99a6}
.running{color:#6aa5ec}
.completed{color:#58b98c}
.failed{color:#ee7d70}
.skipped{color:#d9a441}
.stopped{color:#a797e6}
.hatch{stroke:#15191e}
.ink{stroke:#15191e}
}
";

/// The mark of each state, 16 pixels wide around its middle, and the patterns of bars.
pub(super) const SHAPES: &str = "
<g id=\"planned\"><circle r=\"6\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\"/></g>
<g id=\"never\"><circle r=\"6\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\" stroke-dasharray=\"2 2.2\"/></g>
<g id=\"waiting\"><circle r=\"6\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\"/>\
<path d=\"M-3 0h.1M0 0h.1M3 0h.1\" stroke=\"currentColor\" stroke-width=\"2\" stroke-linecap=\"round\"/></g>
<g id=\"backing\"><circle r=\"6\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\"/>\
<path d=\"M0 -3.4V0L2.4 1.6\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\" stroke-linecap=\"round\"/></g>
<g id=\"running\"><circle r=\"6\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\"/>\
<path d=\"M-2 -3.2L3.4 0L-2 3.2z\" fill=\"currentColor\"/></g>
<g id=\"completed\"><circle r=\"7\" fill=\"currentColor\"/>\
<path class=\"ink\" d=\"M-3.2 .3L-.9 2.6L3.4 -2.3\" fill=\"none\" stroke=\"#fff\" stroke-width=\"1.8\" stroke-linecap=\"round\" \
stroke-linejoin=\"round\"/></g>
<g id=\"failed\"><circle r=\"7\" fill=\"currentColor\"/>\
<path class=\"ink\" d=\"M-2.6 -2.6L2.6 2.6M2.6 -2.6L-2.6 2.6\" stroke=\"#fff\" stroke-width=\"1.8\" stroke-linecap=\"round\"/></g>
<g id=\"skipped\"><circle r=\"6\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\"/>\
<path d=\"M-3 -2.6L-.4 0L-3 2.6M.4 -2.6L3 0L.4 2.6\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" \
stroke-linecap=\"round\" stroke-linejoin=\"round\"/></g>
<g id=\"stopped\"><rect x=\"-6\" y=\"-6\" width=\"12\" height=\"12\" rx=\"2\" fill=\"currentColor\"/>\
<rect class=\"ink\" x=\"-2\" y=\"-2\" width=\"4\" height=\"4\" fill=\"none\" stroke=\"#fff\" stroke-width=\"1.4\"/></g>
<pattern id=\"slant\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path class=\"hatch\" d=\"M-1 7L7 -1M-1 1L1 -1M5 7L7 5\"/>\
</pattern>
<pattern id=\"cross\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\"><path class=\"hatch\" d=\"M0 2.5H5M2.5 0V5\"/></pattern>
";
