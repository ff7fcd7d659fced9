//! [`Program`]: a JSON Schema, compiled into rules whose application can be counted.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Number, Value};

use super::format::Format;
use super::pattern::Pattern;

/// The position of a subschema in a [`Program`].
pub(super) type Id = usize;

/// The subschemas of a schema. The root is first.
#[derive(Default)]
pub(super) struct Program {
    pub(super) nodes: Vec<Node>,
    /// The subschemas by the addresses of what they were compiled from.
    pub(super) places: HashMap<usize, Id>,
    /// For each schema resource, its `$dynamicAnchor`s.
    pub(super) dynamic_anchors: Vec<HashMap<String, Id>>,
    /// `true` if a reference depends on the path to it, so that no result can be remembered.
    pub(super) is_dynamic: bool,
}

/// A subschema.
#[derive(Default)]
pub(super) struct Node {
    /// The rules in the order in which they are applied: those that look through others are last.
    pub(super) rules: Vec<Rule>,
    /// Steps of its own rules for each value.
    pub(super) cost: usize,
    /// The schema resource that it belongs to.
    pub(super) resource: usize,
    /// `true` if a reference leads here, so that a value may arrive here more than once.
    pub(super) is_shared: bool,
    /// `true` if it has `unevaluatedProperties` or `unevaluatedItems`.
    pub(super) looks_through: bool,
}

/// The types of JSON that a value may have, as a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Types(u8);

/// The names of the types, in the order of their bits.
const TYPE_NAMES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];

impl Types {
    /// Returns the set of the type with this name.
    pub(super) fn named(name: &str) -> Option<Types> {
        TYPE_NAMES.iter().position(|other| *other == name).map(|at| Types(1 << at))
    }

    /// Returns the types of both sets.
    pub(super) fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    /// Returns the names of the types.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        (0..).zip(TYPE_NAMES).filter(move |(at, _)| self.0 & (1 << at) != 0).map(|(_, name)| name)
    }

    /// Returns whether a value has one of the types. `1.0` is an integer, but not for Draft 4,
    /// unless it is too large to be another number.
    pub(super) fn has(self, value: &Value, floats_are_integers: bool) -> bool {
        let bits = match value {
            Value::Null => 1,
            Value::Bool(_) => 1 << 1,
            Value::Object(_) => 1 << 2,
            Value::Array(_) => 1 << 3,
            Value::Number(number) if is_whole(number, floats_are_integers) => 1 << 4 | 1 << 6,
            Value::Number(_) => 1 << 4,
            Value::String(_) => 1 << 5,
        };
        self.0 & bits != 0
    }
}

/// From here on, whole numbers are read as floats.
const LARGE: f64 = (1_u64 << 63) as f64;

fn is_whole(number: &Number, floats_are_integers: bool) -> bool {
    number.as_f64().is_some_and(|float| match number.is_f64() {
        true => float.fract() == 0.0 && (floats_are_integers || float.abs() >= LARGE),
        false => true,
    })
}

/// One keyword, or keywords that depend on each other.
pub(super) enum Rule {
    /// The schema `false`.
    Never,
    Type {
        types: Types,
        floats_are_integers: bool,
    },
    Const(Value),
    /// `size` counts the values and their parts.
    Enum {
        values: Vec<Value>,
        size: usize,
    },
    Bound {
        limit: Number,
        bound: Bound,
    },
    MultipleOf(Number),
    /// A count of characters, items or properties.
    Count {
        of: Counted,
        least: Option<u64>,
        most: Option<u64>,
    },
    Pattern(Pattern),
    Format(Format),
    UniqueItems,
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    DependentSchemas(Vec<(String, Id)>),
    Properties(Properties),
    PropertyNames(Id),
    Items {
        first: Vec<Id>,
        rest: Option<Id>,
    },
    /// `marks` if the items that fit are evaluated, as since Draft 2020-12.
    Contains {
        id: Id,
        least: u64,
        most: Option<u64>,
        marks: bool,
    },
    All(Vec<Id>),
    Any(Vec<Id>),
    One(Vec<Id>),
    Not(Id),
    If {
        test: Id,
        then: Option<Id>,
        otherwise: Option<Id>,
    },
    Reference(Id),
    /// A reference to the outermost anchor of this name, or to a subschema.
    DynamicReference(String, Id),
    /// A reference to a metaschema: the value is a schema.
    Metaschema,
    UnevaluatedProperties(Id),
    UnevaluatedItems(Id),
}

/// The bounds of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Minimum,
    ExclusiveMinimum,
    Maximum,
    ExclusiveMaximum,
}

/// The parts of a value that are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Characters,
    Items,
    Properties,
}

/// The subschemas for the values of properties.
#[derive(Default)]
pub(super) struct Properties {
    pub(super) named: BTreeMap<String, Id>,
    pub(super) patterns: Vec<(Pattern, Id)>,
    pub(super) additional: Option<Id>,
}
