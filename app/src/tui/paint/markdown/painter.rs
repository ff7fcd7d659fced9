//! [`Painter`]: the layout of one unit of a text in Markdown.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::super::code::Code;
use super::super::flow::{Break, Flow, Fragment, add, columns};
use super::super::{highlight::Highlighter, theme::Theme};
use super::page::{Inset, Page};
use super::table::Table;
use super::units::parse;

/// A link or an image whose text is being read.
struct Link {
    /// The target of the link.
    to: String,
    /// The text read so far.
    text: String,
}

/// A painter, which lays out the events of a parser as lines.
pub(super) struct Painter<'a> {
    source: &'a str,
    theme: &'a Theme,
    page: Page<'a>,
    flow: Option<Flow>,
    styles: Vec<Style>,
    /// The number of the next item of each open list.
    lists: Vec<Option<u64>>,
    link: Option<Link>,
    image: Option<Link>,
    code: Option<(String, String)>,
    table: Option<Table>,
}

impl<'a> Painter<'a> {
    /// Creates a painter for one unit.
    pub(super) fn new(source: &'a str, width: usize, theme: &'a Theme) -> Self {
        Painter {
            source,
            theme,
            page: Page::new(source, width),
            flow: None,
            styles: vec![theme.text],
            lists: Vec::new(),
            link: None,
            image: None,
            code: None,
            table: None,
        }
    }

    /// Continues a paragraph whose beginning is laid out.
    pub(super) fn continuing(mut self, flow: Option<Flow>) -> Self {
        self.flow = flow;
        self
    }

    /// Lays out the whole unit. With `leave_open`, also returns the unfinished paragraph at its
    /// end. A list begins with `number`.
    pub(super) fn paint(
        mut self,
        number: Option<u64>,
        leave_open: bool,
    ) -> (Vec<Line<'static>>, Option<Flow>) {
        let mut depth = 0;
        let mut covered = 0;
        for (event, range) in parse(self.source) {
            if depth == 0 && covered < range.start {
                self.definitions(covered, range.start);
            }
            match event {
                Event::Start(tag) => {
                    let first = (depth == 0).then_some(number).flatten();
                    self.start(tag, range.start, first);
                    depth += 1;
                }
                Event::End(tag) => {
                    depth -= 1;
                    if !(leave_open && depth == 0 && tag == TagEnd::Paragraph) {
                        self.end(tag);
                    }
                }
                other => self.inline(other, range.start),
            }
            if depth == 0 {
                covered = range.end.max(covered);
            }
        }
        if covered < self.source.len() {
            self.definitions(covered, self.source.len());
        }
        let mut flow = self.flow.take();
        if leave_open {
            self.page.lines.extend(flow.iter_mut().flat_map(Flow::full_rows).map(Line::from));
        } else if let Some(flow) = flow.take() {
            self.page.put(flow.finish());
        }
        (self.page.lines, flow)
    }

    /// Lays out the text between blocks, which is empty or defines references. Definitions are
    /// shown, since references that are already laid out may need them.
    fn definitions(&mut self, from: usize, to: usize) {
        let text = self.source[from..to].trim();
        if !text.is_empty() {
            self.close();
            let offset = from + self.source[from..to].find(text).unwrap_or(0);
            self.page.separate(offset);
            self.page.put_unindented(text, self.theme.dim);
        }
    }

    fn start(&mut self, tag: Tag<'_>, offset: usize, first: Option<u64>) {
        let style = match &tag {
            Tag::Strong => self.theme.strong,
            Tag::Emphasis => self.theme.emphasis,
            Tag::Strikethrough => self.theme.struck,
            Tag::Link { dest_url, .. } => {
                self.link = Some(Link { to: dest_url.to_string(), text: String::new() });
                self.theme.link
            }
            Tag::Image { dest_url, .. } => {
                self.image = Some(Link { to: dest_url.to_string(), text: String::new() });
                return;
            }
            Tag::TableRow | Tag::TableHead | Tag::TableCell => return self.table_part(&tag),
            Tag::Paragraph if self.flow.is_some() && !self.page.is_inset() => return,
            _ => {
                self.close();
                return self.start_block(tag, offset, first);
            }
        };
        self.styles.push(self.style().patch(style));
    }

    fn start_block(&mut self, tag: Tag<'_>, offset: usize, first: Option<u64>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.open(offset),
            Tag::Heading { level, .. } => {
                let mut style = self.theme.heading;
                if level == HeadingLevel::H1 {
                    style = style.add_modifier(Modifier::UNDERLINED);
                }
                self.styles.push(self.style().patch(style));
                self.open(offset);
            }
            Tag::List(start) => self.lists.push(start.map(|start| first.unwrap_or(start))),
            Tag::Item => {
                self.page.separate(offset);
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    _ => "• ".to_owned(),
                };
                let width = columns(&mark);
                let margin = Fragment::raw(" ".repeat(width));
                self.page.inset(Inset {
                    mark: Some(Fragment::styled(mark, self.theme.accent)),
                    margin,
                    width,
                });
            }
            Tag::BlockQuote(_) => {
                self.page.separate(offset);
                self.styles.push(self.style().patch(self.theme.quote));
                self.page.inset(Inset {
                    mark: None,
                    margin: Fragment::styled("│ ", self.theme.dim),
                    width: 2,
                });
            }
            Tag::CodeBlock(kind) => {
                self.page.separate(offset);
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::Table(columns) => {
                self.page.separate(offset);
                self.table = Some(Table::new(columns));
            }
            _ => {}
        }
    }

    fn table_part(&mut self, tag: &Tag<'_>) {
        match (&mut self.table, tag) {
            (Some(table), Tag::TableCell) => table.begin_cell(),
            (Some(table), _) => table.begin_row(),
            (None, _) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => self.end_style(),
            TagEnd::Link => {
                self.end_style();
                if let Some(link) = self.link.take()
                    && needs_target(&link)
                {
                    self.text(&format!(" ({})", link.to), self.style().patch(self.theme.dim));
                }
            }
            TagEnd::Image => {
                if let Some(Link { to, text }) = self.image.take() {
                    let what = if text.is_empty() { to } else { text };
                    self.text(&format!("[image: {what}]"), self.style().patch(self.theme.dim));
                }
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.close(),
            TagEnd::Heading(_) => {
                self.close();
                self.end_style();
            }
            TagEnd::List(_) => {
                self.close();
                self.lists.pop();
            }
            TagEnd::Item => {
                self.close();
                self.page.end_inset();
            }
            TagEnd::BlockQuote(_) => {
                self.close();
                self.page.end_inset();
                self.end_style();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let rows = table.rows(self.page.inner(), self.theme);
                    self.page.put(rows);
                }
            }
            _ => {}
        }
    }

    fn inline(&mut self, event: Event<'_>, offset: usize) {
        let style = self.style();
        if let Some((_, code)) = &mut self.code {
            if let Event::Text(text) = event {
                code.push_str(&text);
            }
            return;
        }
        if self.flow.is_none()
            && self.table.is_none()
            && !matches!(event, Event::Rule | Event::TaskListMarker(_))
        {
            self.open(offset);
        }
        match event {
            Event::Code(text) => self.text(&text, style.patch(self.theme.code)),
            Event::SoftBreak => self.text(" ", style),
            Event::HardBreak => self.text("\n", style),
            Event::InlineHtml(html) if is_break(&html) => self.text("\n", style),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.text(&text, style)
            }
            Event::Rule => {
                self.close();
                self.page.separate(offset);
                let rule = "─".repeat(self.page.inner());
                self.page.put(vec![vec![Fragment::styled(rule, self.theme.dim)]]);
            }
            Event::TaskListMarker(done) => self.task(done),
            _ => {}
        }
    }

    /// Adds text to the current image, table cell or paragraph.
    fn text(&mut self, text: &str, style: Style) {
        if let Some(image) = &mut self.image {
            return image.text.push_str(text);
        }
        if let Some(link) = &mut self.link {
            link.text.push_str(text);
        }
        match (&mut self.table, &mut self.flow) {
            (Some(table), _) => add(table.cell(), text, style),
            (None, Some(flow)) => flow.push(text, style),
            (None, None) => {}
        }
    }

    /// Replaces the item's mark with a box.
    fn task(&mut self, done: bool) {
        let (text, style) =
            if done { ("☑ ", self.theme.ok) } else { ("☐ ", self.theme.accent) };
        if !self.page.replace_mark(Fragment::styled(text, style)) {
            let inner = self.page.inner();
            self.flow.get_or_insert_with(|| Flow::new(inner, Break::Words)).push(text, style);
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.theme.text)
    }

    fn end_style(&mut self) {
        if self.styles.len() > 1 {
            self.styles.pop();
        }
    }

    /// Begins a paragraph.
    fn open(&mut self, offset: usize) {
        self.page.separate(offset);
        self.flow = Some(Flow::new(self.page.inner(), Break::Words));
    }

    /// Ends the open paragraph, if any.
    fn close(&mut self) {
        if let Some(flow) = self.flow.take() {
            self.page.put(flow.finish());
        }
    }

    fn end_code(&mut self) {
        let Some((language, text)) = self.code.take() else {
            return;
        };
        let mut code = Code::new(self.page.inner(), Highlighter::new(&language));
        let mut lines = Vec::new();
        text.lines().for_each(|line| code.line(line, self.theme, &mut lines));
        self.page.put(lines.into_iter().map(|line| line.spans).collect());
    }
}

/// Returns whether the target must be shown, because the text does not contain it.
fn needs_target(link: &Link) -> bool {
    let bare = |url: &str| {
        let url = url.strip_prefix("mailto:").unwrap_or(url);
        let url = url.strip_prefix("https://").or(url.strip_prefix("http://")).unwrap_or(url);
        url.trim_end_matches('/').to_owned()
    };
    !link.to.is_empty() && bare(&link.to) != bare(&link.text)
}

fn is_break(html: &str) -> bool {
    html.trim_matches(['<', '/', '>', ' ']).eq_ignore_ascii_case("br")
}
