//! [`Painter`]: one unit of a text in Markdown, laid out.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::super::code::Code;
use super::super::flow::{Break, Flow, Piece, add, columns, shorten, wrap};
use super::super::{highlight::Highlighter, theme::Theme};
use super::table::Table;
use super::units::{blank_before, parse};

/// What a paragraph of an item or a quote is set in by.
struct Inset {
    /// The item's mark, until its first line is put.
    mark: Option<Piece>,
    /// What comes before each other line.
    margin: Piece,
    width: usize,
}

/// A link or an image, as far as it is read.
struct Link {
    /// Where it leads.
    to: String,
    /// What it says.
    text: String,
}

/// Follows the events of a parser, and makes lines.
pub(super) struct Painter<'a> {
    source: &'a str,
    width: usize,
    theme: &'a Theme,
    lines: Vec<Line<'static>>,
    insets: Vec<Inset>,
    flow: Option<Flow>,
    styles: Vec<Style>,
    /// The number of the next item, of each list that is open.
    lists: Vec<Option<u64>>,
    /// Nothing has been put yet into the innermost item or quote, so no empty line comes before.
    fresh: bool,
    link: Option<Link>,
    image: Option<Link>,
    code: Option<(String, String)>,
    table: Option<Table>,
}

impl<'a> Painter<'a> {
    pub(super) fn new(source: &'a str, width: usize, theme: &'a Theme) -> Self {
        Painter {
            source,
            width,
            theme,
            lines: Vec::new(),
            insets: Vec::new(),
            flow: None,
            styles: vec![theme.text],
            lists: Vec::new(),
            fresh: true,
            link: None,
            image: None,
            code: None,
            table: None,
        }
    }

    /// Goes on with a paragraph of which the beginning is laid out.
    pub(super) fn going_on(mut self, flow: Option<Flow>) -> Self {
        self.flow = flow;
        self
    }

    /// Lays all out; what is left is the paragraph at the end, if it is to be gone on with. A list
    /// begins with `number`.
    pub(super) fn paint(
        mut self,
        number: Option<u64>,
        leave_open: bool,
    ) -> (Vec<Line<'static>>, Option<Flow>) {
        let (mut depth, mut told) = (0, 0);
        for (event, range) in parse(self.source) {
            if depth == 0 && told < range.start {
                self.definitions(told, range.start);
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
                told = range.end.max(told);
            }
        }
        if told < self.source.len() {
            self.definitions(told, self.source.len());
        }
        let mut flow = self.flow.take();
        if leave_open {
            self.lines.extend(flow.iter_mut().flat_map(Flow::full_rows).map(Line::from));
        } else if let Some(flow) = flow.take() {
            self.put(flow.finish());
        }
        (self.lines, flow)
    }

    /// What is between blocks is empty, or tells where references lead: that is shown, since it may
    /// say it of references above, which have long been laid out.
    fn definitions(&mut self, from: usize, to: usize) {
        let text = self.source[from..to].trim();
        if !text.is_empty() {
            self.close();
            let place = from + self.source[from..to].find(text).unwrap_or(0);
            self.separate(place);
            let width = u16::try_from(self.width).unwrap_or(u16::MAX);
            self.lines.extend(wrap(text, width, self.theme.dim));
            self.fresh = false;
        }
    }

    fn start(&mut self, tag: Tag<'_>, place: usize, first: Option<u64>) {
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
            Tag::Paragraph if self.flow.is_some() && self.insets.is_empty() => return,
            _ => {
                self.close();
                return self.start_block(tag, place, first);
            }
        };
        self.styles.push(self.style().patch(style));
    }

    fn start_block(&mut self, tag: Tag<'_>, place: usize, first: Option<u64>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.open(place),
            Tag::Heading { level, .. } => {
                let mut style = self.theme.heading;
                if level == HeadingLevel::H1 {
                    style = style.add_modifier(Modifier::UNDERLINED);
                }
                self.styles.push(self.style().patch(style));
                self.open(place);
            }
            Tag::List(start) => self.lists.push(start.map(|start| first.unwrap_or(start))),
            Tag::Item => {
                self.separate(place);
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    _ => "• ".to_owned(),
                };
                let width = columns(&mark);
                let margin = Piece::raw(" ".repeat(width));
                self.inset(Inset {
                    mark: Some(Piece::styled(mark, self.theme.accent)),
                    margin,
                    width,
                });
            }
            Tag::BlockQuote(_) => {
                self.separate(place);
                self.styles.push(self.style().patch(self.theme.quote));
                self.inset(Inset {
                    mark: None,
                    margin: Piece::styled("│ ", self.theme.dim),
                    width: 2,
                });
            }
            Tag::CodeBlock(kind) => {
                self.separate(place);
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::Table(columns) => {
                self.separate(place);
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
                    && shown_too(&link)
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
            TagEnd::Item => self.end_inset(),
            TagEnd::BlockQuote(_) => {
                self.end_inset();
                self.end_style();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let rows = table.rows(self.inner(), self.theme);
                    self.put(rows);
                }
            }
            _ => {}
        }
    }

    fn inline(&mut self, event: Event<'_>, place: usize) {
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
            self.open(place);
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
                self.separate(place);
                self.put(vec![vec![Piece::styled("─".repeat(self.inner()), self.theme.dim)]]);
            }
            Event::TaskListMarker(done) => self.task(done),
            _ => {}
        }
    }

    /// Text, wherever text goes at this place.
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

    /// A box in place of the item's mark.
    fn task(&mut self, done: bool) {
        let (mark, style) =
            if done { ("☑ ", self.theme.ok) } else { ("☐ ", self.theme.accent) };
        match self.insets.last_mut() {
            Some(Inset { mark: Some(old), width: 2, .. }) => *old = Piece::styled(mark, style),
            _ => {
                let flow = self.flow.take();
                let inner = self.inner();
                self.flow
                    .insert(flow.unwrap_or_else(|| Flow::new(inner, Break::Words)))
                    .push(mark, style);
            }
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
    fn open(&mut self, place: usize) {
        self.separate(place);
        self.flow = Some(Flow::new(self.inner(), Break::Words));
    }

    /// Ends the paragraph that is open, if any.
    fn close(&mut self) {
        if let Some(flow) = self.flow.take() {
            self.put(flow.finish());
        }
    }

    fn end_code(&mut self) {
        let Some((language, text)) = self.code.take() else {
            return;
        };
        let (mut code, mut lines) =
            (Code::new(self.inner(), Highlighter::new(&language)), Vec::new());
        text.lines().for_each(|line| code.line(line, self.theme, &mut lines));
        self.put(lines.into_iter().map(|line| line.spans).collect());
    }

    /// Puts an empty line where the source has one.
    fn separate(&mut self, place: usize) {
        if !self.fresh && blank_before(self.source, place) {
            let mut margin: Vec<Piece> =
                self.insets.iter().map(|inset| inset.margin.clone()).collect();
            while margin.last().is_some_and(|piece| piece.content.trim().is_empty()) {
                margin.pop();
            }
            self.lines.push(Line::from(margin));
        }
    }

    /// Sets in what follows, unless that would leave less than half of the width.
    fn inset(&mut self, mut inset: Inset) {
        if self.width - self.inner() + inset.width > self.width / 2 {
            inset = Inset { mark: inset.mark, margin: Piece::raw(""), width: 0 };
        }
        self.insets.push(inset);
        self.fresh = true;
    }

    fn end_inset(&mut self) {
        self.close();
        if self.insets.last().is_some_and(|inset| inset.mark.is_some()) {
            self.put(vec![Vec::new()]);
        }
        self.insets.pop();
        self.fresh = false;
    }

    fn inner(&self) -> usize {
        self.width.saturating_sub(self.insets.iter().map(|inset| inset.width).sum()).max(1)
    }

    /// Puts rows behind the margins.
    fn put(&mut self, rows: Vec<Vec<Piece>>) {
        for mut row in rows {
            let mut line = Vec::new();
            for inset in &mut self.insets {
                match inset.mark.take() {
                    Some(mark) if inset.width > 0 => line.push(mark),
                    // There is no room beside the text, so it stands above.
                    Some(mark) => {
                        let text = shorten(mark.content.trim_end(), self.width);
                        self.lines.push(Line::from(vec![Piece::styled(text, mark.style)]));
                    }
                    None => line.push(inset.margin.clone()),
                }
            }
            line.append(&mut row);
            while line.last().is_some_and(|piece| piece.content.is_empty()) {
                line.pop();
            }
            self.lines.push(Line::from(line));
            self.fresh = false;
        }
    }
}

/// Whether it must be told where a link leads, because its text does not say so.
fn shown_too(link: &Link) -> bool {
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
