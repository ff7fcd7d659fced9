//! The compiler of a JSON Schema. It refuses what is too large before it recurses.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::format::Format;
use super::keywords::Keywords;
use super::pattern::Pattern;
use super::program::{Bound, Counted, Id, Node, Program, Properties, Rule};
use super::report::shown;
use super::resources::{Draft, Reference, Resources};
use super::stack::{NO_STACK, on_stack};
use crate::excerpt;
use crate::json::{text_weight, weight};

/// Maximum nesting of a schema as JSON, the same as in `serde_json`.
const MAX_NESTING: usize = 128;
/// Maximum number of subschemas.
const MAX_SUBSCHEMAS: usize = 5_000;
/// Maximum number of values in a schema, as JSON.
const MAX_VALUES: usize = 100_000;
/// Maximum weight of all constants.
const MAX_COPIED: usize = 200_000;
/// Maximum size of all compiled patterns, as of `Pattern::compile_size`.
const MAX_PATTERN_SIZE: usize = 75_000;
/// Maximum number of looks for the targets of references. The second one finds what is within the
/// targets that the first one found.
const MAX_PASSES: usize = 8;
/// Maximum length of a reference in an error, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// Returns whether a value is a schema, apart from its patterns and from the targets of its
/// references.
pub(super) fn is_schema(value: &Value) -> bool {
    let check = || Compiler::of(value).node(value, 0).is_ok();
    nesting(value).is_ok_and(|nesting| on_stack(nesting, check).unwrap_or_default())
}

/// Compiles a schema. The error names the mistake or the exceeded limit.
pub(super) fn compile(schema: &Value) -> Result<Program, String> {
    let nesting = nesting(schema)?;
    let compiled = on_stack(nesting, || {
        let mut compiler = Compiler::of(schema);
        compiler.node(schema, 0)?;
        compiler.resolve()?;
        compiler.finish()
    });
    compiled.map_err(|_| NO_STACK)?
}

/// Returns the levels of nesting of a schema that is not too large.
pub(super) fn nesting(schema: &Value) -> Result<usize, String> {
    let (mut open, mut values, mut nesting) = (vec![(schema, 1)], 0, 0);
    while let Some((value, level)) = open.pop() {
        values += 1;
        nesting = nesting.max(level);
        if level > MAX_NESTING {
            return Err(format!("it is nested more than {MAX_NESTING} levels deep"));
        }
        if values > MAX_VALUES {
            return Err(format!("it has more than {MAX_VALUES} values"));
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|it| (it, level + 1))),
            _ => {}
        }
    }
    Ok(nesting)
}

/// A reference whose target is not yet known.
struct Pending<'s> {
    from: Id,
    /// The position of its rule.
    rule: usize,
    reference: Reference<'s>,
}

struct Compiler<'s> {
    nodes: Vec<Node>,
    /// The subschemas compiled so far, by address.
    known: HashMap<*const Value, Id>,
    resources: Resources<'s>,
    pending: Vec<Pending<'s>>,
    patterns: usize,
    copied: usize,
    is_dynamic: bool,
}

impl<'s> Compiler<'s> {
    fn of(schema: &'s Value) -> Self {
        Compiler {
            nodes: Vec::new(),
            known: HashMap::new(),
            resources: Resources::of(schema),
            pending: Vec::new(),
            patterns: 0,
            copied: 0,
            is_dynamic: false,
        }
    }

    fn node(&mut self, schema: &'s Value, resource: usize) -> Result<Id, String> {
        if let Some(id) = self.known.get(&std::ptr::from_ref(schema)) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        if id >= MAX_SUBSCHEMAS {
            return Err(format!("it has more than {MAX_SUBSCHEMAS} subschemas"));
        }
        self.nodes.push(Node { resource, ..Node::default() });
        self.known.insert(schema, id);
        match schema {
            Value::Bool(true) => {}
            Value::Bool(false) => self.nodes[id].rules.push(Rule::Never),
            Value::Object(fields) => {
                let resource = self.resources.register(schema, fields, resource)?;
                self.nodes[id].resource = resource;
                self.object(id, fields, resource)?;
            }
            _ => return Err(format!("a schema is an object or a boolean, not {}", shown(schema))),
        }
        Ok(id)
    }

    fn object(
        &mut self,
        id: Id,
        fields: &'s Map<String, Value>,
        resource: usize,
    ) -> Result<(), String> {
        let words = Keywords(fields);
        let draft = self.resources.draft(resource);
        for word in ["$defs", "definitions"] {
            self.map(words, word, resource)?;
        }
        self.references(id, words)?;
        if draft < Draft::Nineteen && words.get("$ref").is_some() {
            return Ok(()); // its siblings are ignored
        }
        self.of_any(id, words, draft)?;
        self.of_numbers(id, words)?;
        self.of_strings(id, words, draft)?;
        self.of_arrays(id, words, resource)?;
        self.of_objects(id, words, resource)?;
        self.branches(id, words, resource)?;
        for (word, rule) in [
            ("unevaluatedProperties", Rule::UnevaluatedProperties as fn(Id) -> Rule),
            ("unevaluatedItems", Rule::UnevaluatedItems),
        ] {
            if let Some(part) = self.part(words, word, resource)? {
                self.nodes[id].looks_through = true;
                self.add(id, 1, rule(part));
            }
        }
        Ok(())
    }

    /// Adds a rule that costs so many steps for each value.
    fn add(&mut self, id: Id, cost: usize, rule: Rule) {
        self.nodes[id].cost += cost;
        self.nodes[id].rules.push(rule);
    }

    fn references(&mut self, id: Id, words: Keywords<'s>) -> Result<(), String> {
        for word in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(text) = words.text(word)? {
                let reference = self.resources.reference(word, text, self.nodes[id].resource)?;
                self.pending.push(Pending {
                    from: id,
                    rule: self.nodes[id].rules.len(),
                    reference,
                });
                self.add(id, 1, Rule::Never); // until the target is known
            }
        }
        Ok(())
    }

    fn of_any(&mut self, id: Id, words: Keywords<'s>, draft: Draft) -> Result<(), String> {
        if let Some(types) = words.types()? {
            let floats_are_integers = draft > Draft::Four;
            self.add(id, 0, Rule::Type { types, floats_are_integers });
        }
        if let Some(values) = words.list("enum")? {
            let size = self.copied(values)?;
            self.add(id, 1, Rule::Enum { values: values.to_vec(), size });
        }
        if let Some(value) = words.0.get("const").filter(|_| draft > Draft::Four) {
            let size = self.copied(std::slice::from_ref(value))?;
            self.add(id, size, Rule::Const(value.clone()));
        }
        Ok(())
    }

    fn of_numbers(&mut self, id: Id, words: Keywords<'s>) -> Result<(), String> {
        for (word, bound, exclusive_word, exclusive) in [
            ("minimum", Bound::Minimum, "exclusiveMinimum", Bound::ExclusiveMinimum),
            ("maximum", Bound::Maximum, "exclusiveMaximum", Bound::ExclusiveMaximum),
        ] {
            // In Draft 4, a boolean makes the other bound exclusive.
            let flag = words.0.get(exclusive_word).and_then(Value::as_bool);
            if let Some(limit) = words.number(word)? {
                let bound = if flag == Some(true) { exclusive } else { bound };
                self.add(id, 1, Rule::Bound { limit: limit.clone(), bound });
            }
            if flag.is_none()
                && let Some(limit) = words.number(exclusive_word)?
            {
                self.add(id, 1, Rule::Bound { limit: limit.clone(), bound: exclusive });
            }
        }
        if let Some(divisor) = words.number("multipleOf")? {
            if !divisor.as_f64().is_some_and(|divisor| divisor > 0.0) {
                return Err(format!("`multipleOf` must be greater than 0, and is {divisor}"));
            }
            self.add(id, 4, Rule::MultipleOf(divisor.clone()));
        }
        Ok(())
    }

    fn of_strings(&mut self, id: Id, words: Keywords<'s>, draft: Draft) -> Result<(), String> {
        self.counted(id, words, Counted::Characters, ["minLength", "maxLength"])?;
        if let Some(text) = words.text("pattern")? {
            let pattern = self.pattern(text)?;
            self.add(id, 0, Rule::Pattern(pattern));
        }
        let format = words.text("format")?.filter(|_| draft < Draft::Nineteen);
        if let Some(format) = format.and_then(Format::named) {
            self.add(id, 0, Rule::Format(format));
        }
        Ok(())
    }

    fn of_arrays(&mut self, id: Id, words: Keywords<'s>, resource: usize) -> Result<(), String> {
        self.counted(id, words, Counted::Items, ["minItems", "maxItems"])?;
        if words.flag("uniqueItems")? {
            self.add(id, 1, Rule::UniqueItems);
        }
        let is_list = words.0.get("items").is_some_and(Value::is_array);
        let (first, rest) =
            if is_list { ("items", "additionalItems") } else { ("prefixItems", "items") };
        let has_first = words.0.contains_key(first);
        let first = self.parts(words, first, resource)?;
        let rest = self.part(words, rest, resource)?;
        if has_first || rest.is_some() {
            self.add(id, 0, Rule::Items { first, rest });
        }
        let (least, most) = (words.count("minContains")?, words.count("maxContains")?);
        if let Some(part) = self.part(words, "contains", resource)? {
            let least = least.unwrap_or(1);
            let marks = self.resources.draft(resource) == Draft::Latest;
            self.add(id, 1, Rule::Contains { id: part, least, most, marks });
        }
        Ok(())
    }

    fn of_objects(&mut self, id: Id, words: Keywords<'s>, resource: usize) -> Result<(), String> {
        self.counted(id, words, Counted::Properties, ["minProperties", "maxProperties"])?;
        // In Draft 3, it is a flag of a property.
        if !words.0.get("required").is_some_and(Value::is_boolean)
            && let Some(names) = words.names("required")?
        {
            self.add(id, of_names(&names), Rule::Required(names));
        }
        let named = self.map(words, "properties", resource)?.into_iter().flatten().collect();
        let mut patterns = Vec::new();
        for (name, part) in self.map(words, "patternProperties", resource)?.into_iter().flatten() {
            patterns.push((self.pattern(&name)?, part));
        }
        let additional = self.part(words, "additionalProperties", resource)?;
        let properties = Properties { named, patterns, additional };
        if !properties.is_empty() {
            self.add(id, 1, Rule::Properties(properties));
        }
        if let Some(part) = self.part(words, "propertyNames", resource)? {
            self.add(id, 1, Rule::PropertyNames(part));
        }
        let mut schemas = self.map(words, "dependentSchemas", resource)?.unwrap_or_default();
        let mut names = Vec::new();
        for word in ["dependencies", "dependentRequired"] {
            for (name, value) in words.object(word)?.into_iter().flatten() {
                match value {
                    Value::Array(_) => names.push((name.clone(), words.names_in(word, value)?)),
                    _ if word == "dependencies" => {
                        schemas.push((name.clone(), self.node(value, resource)?));
                    }
                    _ => return Err(format!("`{word}` must have lists of names")),
                }
            }
        }
        if !names.is_empty() {
            let cost = |(name, names): &(String, Vec<String>)| text_weight(name) + of_names(names);
            let cost = names.iter().map(cost).sum();
            self.add(id, cost, Rule::DependentRequired(names));
        }
        if !schemas.is_empty() {
            let cost = schemas.iter().map(|(name, _)| text_weight(name)).sum();
            self.add(id, cost, Rule::DependentSchemas(schemas));
        }
        Ok(())
    }

    fn branches(&mut self, id: Id, words: Keywords<'s>, resource: usize) -> Result<(), String> {
        for (word, rule) in [
            ("allOf", Rule::All as fn(Vec<Id>) -> Rule),
            ("anyOf", Rule::Any),
            ("oneOf", Rule::One),
        ] {
            let parts = self.parts(words, word, resource)?;
            if words.get(word).is_some() {
                self.add(id, 1, rule(parts));
            }
        }
        if let Some(part) = self.part(words, "not", resource)? {
            self.add(id, 1, Rule::Not(part));
        }
        let test = self.part(words, "if", resource)?;
        let then = self.part(words, "then", resource)?;
        let otherwise = self.part(words, "else", resource)?;
        if let Some(test) = test {
            self.add(id, 1, Rule::If { test, then, otherwise });
        }
        Ok(())
    }

    /// Counts values that are copied: a value can be in several others that are copied, too.
    fn copied(&mut self, values: &[Value]) -> Result<usize, String> {
        let size = values.iter().map(weight).sum();
        self.copied += size;
        if self.copied > MAX_COPIED {
            return Err(format!("its constants have more than {MAX_COPIED} parts"));
        }
        Ok(size)
    }

    fn counted(
        &mut self,
        id: Id,
        words: Keywords<'s>,
        of: Counted,
        [least, most]: [&str; 2],
    ) -> Result<(), String> {
        let (least, most) = (words.count(least)?, words.count(most)?);
        if least.is_some() || most.is_some() {
            self.add(id, 1, Rule::Count { of, least, most });
        }
        Ok(())
    }

    /// Counts a pattern. Patterns are compiled when all are counted.
    fn pattern(&mut self, text: &str) -> Result<Pattern, String> {
        let pattern = Pattern::new(text);
        self.patterns = self.patterns.saturating_add(pattern.compile_size());
        if self.patterns > MAX_PATTERN_SIZE {
            return Err(
                "its patterns are too large: use fewer of them, or fewer repetitions".into()
            );
        }
        Ok(pattern)
    }

    fn part(
        &mut self,
        words: Keywords<'s>,
        word: &str,
        resource: usize,
    ) -> Result<Option<Id>, String> {
        words.get(word).map(|schema| self.node(schema, resource)).transpose()
    }

    fn parts(
        &mut self,
        words: Keywords<'s>,
        word: &str,
        resource: usize,
    ) -> Result<Vec<Id>, String> {
        let parts = words.list(word)?.into_iter().flatten();
        parts.map(|schema| self.node(schema, resource)).collect()
    }

    fn map(
        &mut self,
        words: Keywords<'s>,
        word: &str,
        resource: usize,
    ) -> Result<Option<Vec<(String, Id)>>, String> {
        let Some(parts) = words.object(word)? else { return Ok(None) };
        let part =
            |(name, schema): (&String, &'s Value)| Ok((name.clone(), self.node(schema, resource)?));
        parts.iter().map(part).collect::<Result<_, String>>().map(Some)
    }

    /// Finds the targets of all references. Targets can contain further references.
    fn resolve(&mut self) -> Result<(), String> {
        let mut waiting = std::mem::take(&mut self.pending);
        for _ in 0..MAX_PASSES {
            let known = self.nodes.len();
            self.pending = std::mem::take(&mut waiting);
            while let Some(pending) = self.pending.pop() {
                match self.target(&pending)? {
                    Some(rule) => self.nodes[pending.from].rules[pending.rule] = rule,
                    None => waiting.push(pending), // a later target may contain its target
                }
            }
            if waiting.is_empty() || self.nodes.len() == known {
                break;
            }
        }
        for Pending { from, rule, reference } in waiting {
            if !reference.is_to_metaschema() {
                let text = excerpt::chars(reference.text, MAX_SHOWN_CHARS);
                return Err(format!("`$ref` leads nowhere: {text}"));
            }
            self.nodes[from].rules[rule] = Rule::Metaschema;
        }
        Ok(())
    }

    fn target(&mut self, pending: &Pending<'s>) -> Result<Option<Rule>, String> {
        let within = self.nodes[pending.from].resource;
        let id_of = |schema: &Value| self.known.get(&std::ptr::from_ref(schema)).copied();
        let resource_of = |schema: &Value| id_of(schema).map(|id| self.nodes[id].resource);
        let target = self.resources.target(&pending.reference, within, resource_of);
        let Some(target) = target else { return Ok(None) };
        let id = self.node(target.schema, target.resource)?;
        self.nodes[id].is_shared = true;
        self.is_dynamic |= target.dynamic.is_some();
        Ok(Some(match target.dynamic {
            Some(name) => Rule::DynamicReference(name, id),
            None => Rule::Reference(id),
        }))
    }

    fn finish(self) -> Result<Program, String> {
        let Compiler { mut nodes, known, resources, is_dynamic, .. } = self;
        let id_of = |schema: &Value| known.get(&std::ptr::from_ref(schema)).copied();
        let dynamic_anchors = resources.dynamic_anchors(id_of);
        for id in dynamic_anchors.iter().flat_map(HashMap::values) {
            nodes[*id].is_shared = true;
        }
        for rule in nodes.iter_mut().flat_map(|node| &mut node.rules) {
            match rule {
                Rule::Pattern(pattern) => pattern.compile()?,
                Rule::Properties(properties) => {
                    for (pattern, _) in &mut properties.patterns {
                        pattern.compile()?;
                    }
                }
                _ => {}
            }
        }
        let places = known.into_iter().map(|(schema, id)| (schema.addr(), id)).collect();
        Ok(Program { nodes, places, dynamic_anchors, is_dynamic })
    }
}

impl Properties {
    fn is_empty(&self) -> bool {
        self.named.is_empty() && self.patterns.is_empty() && self.additional.is_none()
    }
}

/// Returns the steps of looking up these names.
fn of_names(names: &[String]) -> usize {
    names.iter().map(|name| text_weight(name)).sum()
}
