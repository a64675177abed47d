"""pdwatch's own page. In: what is known now, and the last day. Out: HTML and SVG that any browser shows as it stands.

view                                         what one view is made of
html, charts, words                          markup, pictures, phrases
promises, flow, first_token, decoding,       the sections, one function of a view each
transfers, memory, engines, incidents, tables
page, assets, routes                         the whole, the files beside it, and the way to it
"""

from agent.outputs.page.page import page_html
from agent.outputs.page.routes import PAGE_POLICY, add_page_routes
from agent.outputs.page.view import History, Point, View, view_of

__all__ = ["PAGE_POLICY", "History", "Point", "View", "add_page_routes", "page_html", "view_of"]
