//! [`Report`]: what of a value does not fit a schema, in lines that let a model correct it.

use std::fmt::{self, Display};

use serde_json::{Map, Value};

use super::program::{Bound, Counted, Rule};
use crate::excerpt;

/// Maximum length of a value in a line, in characters.
const MAX_VALUE_CHARS: usize = 200;
/// Maximum length of the name of a property in a path, in characters.
const MAX_NAME_CHARS: usize = 100;
/// Number of steps that a path shows, the last ones.
const MAX_PATH_STEPS: usize = 20;
/// Maximum length of a list of the values of an `enum`, in characters.
const MAX_LIST_CHARS: usize = 400;
/// Maximum number of lines.
const MAX_LINES: usize = 12;

/// Where a value is within the validated value: a JSON Pointer, from its end to its begin.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    before: Option<&'a Path<'a>>,
    step: Step<'a>,
    levels: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Name(&'a str),
    Item(usize),
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Path<'static> = Path { before: None, step: Step::Root, levels: 0 };

    pub(super) fn property(&'a self, name: &'a str) -> Path<'a> {
        Path { before: Some(self), step: Step::Name(name), levels: self.levels + 1 }
    }

    pub(super) fn item(&'a self, at: usize) -> Path<'a> {
        Path { before: Some(self), step: Step::Item(at), levels: self.levels + 1 }
    }

    /// Returns the path, which is empty for the whole value.
    fn json_pointer(&self) -> String {
        let mut steps = Vec::new();
        let mut path = Some(self);
        while let Some(Path { before, step, .. }) = path.filter(|_| steps.len() < MAX_PATH_STEPS) {
            steps.push(step);
            path = *before;
        }
        if path.is_some_and(|path| path.levels > 0) {
            steps.push(&Step::Name("…"));
        }
        steps.iter().rev().fold(String::new(), |mut text, step| {
            match step {
                Step::Root => {}
                Step::Name(name) => {
                    let name = excerpt::chars(name, MAX_NAME_CHARS);
                    text.extend(["/", &name.replace('~', "~0").replace('/', "~1")]);
                }
                Step::Item(at) => text.push_str(&format!("/{at}")),
            }
            text
        })
    }
}

/// The lines about a value, of which the first are kept.
#[derive(Default)]
pub(super) struct Report {
    lines: Vec<String>,
    /// The levels of the value that the report is about.
    levels: usize,
    /// `true` if the value seems to be meant for another schema: it has another type, or a constant
    /// in it is another one.
    pub(super) is_meant_for_another: bool,
}

impl Report {
    /// Returns an empty report about the value at a path.
    pub(super) fn about(at: &Path<'_>) -> Report {
        Report { levels: at.levels, ..Report::default() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= MAX_LINES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds the lines of a report about a part of the value, or about the value itself.
    pub(super) fn extend(&mut self, other: Report) {
        for line in other.lines {
            self.push(line);
        }
    }

    pub(super) fn into_text(self) -> String {
        self.lines.join("\n")
    }

    fn push(&mut self, line: String) {
        if !self.is_full() && !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// Adds a line about the value at a path.
    fn line(&mut self, at: &Path<'_>, what: impl Display) {
        let at = at.json_pointer();
        self.push(format!("- {}: {what}", if at.is_empty() { "/" } else { &at }));
    }

    /// Reports that a required property is missing.
    pub(super) fn missing(&mut self, at: &Path<'_>, name: &str) {
        self.line(&at.property(name), "is required, but missing");
    }

    /// Reports properties that the schema excludes, in one line.
    pub(super) fn unknown_properties(&mut self, at: &Path<'_>, names: &[&str]) {
        let paths = names.iter().take(MAX_LINES).map(|name| at.property(name).json_pointer());
        let mut paths = paths.collect::<Vec<_>>().join(", ");
        if names.len() > MAX_LINES {
            paths.push_str(", …");
        }
        self.push(format!("- {paths}: not a property of this tool"));
    }

    /// Reports that a value does not satisfy a rule of its own, which has no line yet.
    pub(super) fn broken(&mut self, at: &Path<'_>, rule: &Rule, value: &Value) {
        let is_own = at.levels == self.levels;
        let is_constant = matches!(rule, Rule::Const(_) | Rule::Enum { .. });
        let is_near = at.levels <= self.levels + 1;
        self.is_meant_for_another |=
            matches!(rule, Rule::Type { .. }) && is_own || is_constant && is_near;
        self.line(at, Broken(rule, value));
    }
}

/// A rule, and the value that breaks it.
struct Broken<'a>(&'a Rule, &'a Value);

impl Display for Broken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken(rule, value) = self;
        f.write_str(&shown(value))?;
        match rule {
            Rule::Type { types, .. } => {
                let names = types.names().map(|name| format!("\"{name}\"")).collect::<Vec<_>>();
                let types = if names.len() == 1 { "type" } else { "types" };
                write!(f, " is not of {types} {}", names.join(", "))
            }
            Rule::Const(expected) => {
                write!(f, " is not {}", shown(expected))
            }
            Rule::Enum { values, .. } => {
                let mut list = String::new();
                for value in values {
                    if list.len() > MAX_LIST_CHARS {
                        break;
                    }
                    list.extend([if list.is_empty() { "" } else { ", " }, &shown(value)]);
                }
                write!(f, " is not one of {}", excerpt::chars(&list, MAX_LIST_CHARS))
            }
            Rule::Bound { limit, bound } => {
                let (than, name) = match bound {
                    Bound::Minimum => ("less than", "minimum"),
                    Bound::ExclusiveMinimum => ("less than or equal to", "minimum"),
                    Bound::Maximum => ("greater than", "maximum"),
                    Bound::ExclusiveMaximum => ("greater than or equal to", "maximum"),
                };
                write!(f, " is {than} the {name} of {limit}")
            }
            Rule::MultipleOf(divisor) => write!(f, " is not a multiple of {divisor}"),
            Rule::Count { of, least, most } => {
                let of = match of {
                    Counted::Characters => "characters",
                    Counted::Items => "items",
                    Counted::Properties => "properties",
                };
                match (least, most) {
                    (Some(least), Some(most)) => {
                        write!(f, " must have {least} to {most} {of}")
                    }
                    (Some(least), None) => write!(f, " must have at least {least} {of}"),
                    (None, most) => write!(f, " must have at most {} {of}", most.unwrap_or(0)),
                }
            }
            Rule::Pattern(pattern) => {
                write!(f, " does not match {}", shown(&Value::from(pattern.as_str())))
            }
            Rule::Format(format) => write!(f, " is not a valid {}", format.name),
            Rule::UniqueItems => f.write_str(" has equal items"),
            Rule::Contains { least, most, .. } => match most {
                Some(most) => {
                    write!(f, " must have {least} to {most} items that fit `contains`")
                }
                None => write!(f, " must have at least {least} items that fit `contains`"),
            },
            Rule::Any(_) => f.write_str(" is not valid under any of the schemas listed in `anyOf`"),
            Rule::One(_) => {
                f.write_str(" is not valid under exactly one of the schemas in `oneOf`")
            }
            Rule::Not(_) => f.write_str(" is what `not` excludes"),
            Rule::Metaschema => f.write_str(" is not a JSON Schema"),
            _ => f.write_str(" is not allowed here"),
        }
    }
}

/// Formats the beginning of a value, without formatting the rest.
pub(super) fn shown(value: &Value) -> String {
    let beginning = beginning(value, &mut (MAX_VALUE_CHARS + 1)).to_string();
    excerpt::chars(&beginning, MAX_VALUE_CHARS).into_owned()
}

/// Copies the beginning of a value that is at least so many characters long.
fn beginning(value: &Value, left: &mut usize) -> Value {
    match value {
        Value::String(text) => {
            let text = excerpt::chars(text, *left).into_owned();
            *left = left.saturating_sub(text.len());
            Value::from(text)
        }
        Value::Array(items) => {
            let mut some = Vec::new();
            for item in items.iter() {
                if *left == 0 {
                    break;
                }
                *left -= 1;
                some.push(beginning(item, left));
            }
            Value::from(some)
        }
        Value::Object(fields) => {
            let mut some = Map::new();
            for (name, value) in fields {
                if *left == 0 {
                    break;
                }
                *left -= 1;
                let name = excerpt::chars(name, *left).into_owned();
                *left = left.saturating_sub(name.len());
                some.insert(name, beginning(value, left));
            }
            Value::from(some)
        }
        _ => value.clone(),
    }
}
