//! [`Run`]: one validation of a value, within limits of steps and of recursion.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::compile;
use super::equal::{are_unique, weight};
use super::program::{Id, Node, Program, Properties, Rule};
use super::report::{Path, Report};
use super::seen::Seen;
use super::values::{self, Exceeded};

/// Steps of compiling a schema, for each value in it.
const COMPILE_STEPS: usize = 100;
/// Steps of looking up what is known about a subschema that references lead to.
const SHARED_STEPS: usize = 3;
/// Steps of writing a line.
const LINE_STEPS: usize = 50;

/// A validation. It applies each rule to each value that it applies to, and remembers the results
/// of subschemas that references lead to.
pub(super) struct Run<'p> {
    program: &'p Program,
    left: usize,
    depth: usize,
    max_depth: usize,
    /// Verdicts for arrays and objects.
    known: HashMap<(Id, *const Value), bool>,
    /// Validations in progress, and whether for the evaluated parts: a reference that leads to
    /// itself asks for nothing.
    open: HashSet<(Id, *const Value, bool)>,
    /// The schema resources on the path of references, the outermost first.
    scope: Vec<usize>,
}

/// A result that a validation is asked for, besides the verdict.
type Asked<'a, T> = Option<&'a mut T>;

impl<'p> Run<'p> {
    pub(super) fn new(program: &'p Program, max_steps: usize, max_depth: usize) -> Self {
        Run {
            program,
            left: max_steps,
            depth: 0,
            max_depth,
            known: HashMap::new(),
            open: HashSet::new(),
            scope: Vec::new(),
        }
    }

    /// Returns whether a value is valid.
    pub(super) fn verdict(&mut self, value: &Value) -> Result<bool, Exceeded> {
        self.visit(0, value, &Path::ROOT, None, None)
    }

    /// Reports what is not valid. The report is what was found until a limit was exceeded.
    pub(super) fn report(&mut self, value: &Value) -> (Report, Result<bool, Exceeded>) {
        let mut report = Report::default();
        let done = self.visit(0, value, &Path::ROOT, None, Some(&mut report));
        (report, done)
    }

    /// Returns the steps that are left.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    fn spend(&mut self, steps: usize) -> Result<(), Exceeded> {
        self.left = self.left.checked_sub(steps).ok_or(Exceeded::Steps)?;
        Ok(())
    }

    fn visit<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        at: &Path<'_>,
        seen: Asked<'_, Seen<'v>>,
        report: Asked<'_, Report>,
    ) -> Result<bool, Exceeded> {
        let program = self.program;
        let node = &program.nodes[id];
        self.spend(1 + node.cost + if node.is_shared { SHARED_STEPS } else { 0 })?;
        let is_container = value.is_array() || value.is_object();
        let can_be_known = node.is_shared && is_container && !program.is_dynamic;
        let is_verdict = seen.is_none() && report.is_none();
        let key = (id, std::ptr::from_ref(value));
        if can_be_known
            && is_verdict
            && let Some(verdict) = self.known.get(&key)
        {
            return Ok(*verdict);
        }
        let open = (id, std::ptr::from_ref(value), seen.is_some());
        if node.is_shared && !self.open.insert(open) {
            return Ok(true);
        }
        if self.depth == self.max_depth {
            return Err(Exceeded::Depth);
        }
        self.depth += 1;
        let enters = program.is_dynamic && self.scope.last() != Some(&node.resource);
        if enters {
            self.scope.push(node.resource);
        }
        let verdict = self.rules(node, value, at, seen, report)?;
        if enters {
            self.scope.pop();
        }
        self.depth -= 1;
        if node.is_shared {
            self.open.remove(&open);
        }
        if can_be_known && is_verdict {
            self.known.insert(key, verdict);
        }
        Ok(verdict)
    }

    fn rules<'v>(
        &mut self,
        node: &'p Node,
        value: &'v Value,
        at: &Path<'_>,
        mut seen: Asked<'_, Seen<'v>>,
        mut report: Asked<'_, Report>,
    ) -> Result<bool, Exceeded> {
        let mut own = node.looks_through.then(Seen::default);
        let mut verdict = true;
        for rule in &node.rules {
            let looks_through =
                matches!(rule, Rule::UnevaluatedProperties(_) | Rule::UnevaluatedItems(_));
            if looks_through && !verdict {
                continue; // what a broken rule has not seen would be reported, too
            }
            let seen = own.as_mut().or(seen.as_deref_mut());
            verdict &= self.rule(rule, value, at, seen, report.as_deref_mut())?;
            if !verdict && report.as_deref().is_none_or(Report::is_full) {
                return Ok(false);
            }
        }
        if let (true, Some(own), Some(seen)) = (verdict, own, seen) {
            let steps = seen.merge(own);
            self.spend(steps)?;
        }
        Ok(verdict)
    }

    /// Applies a rule. If it is broken and no part of the value is to blame, the report says so.
    fn rule<'v>(
        &mut self,
        rule: &'p Rule,
        value: &'v Value,
        at: &Path<'_>,
        seen: Asked<'_, Seen<'v>>,
        mut report: Asked<'_, Report>,
    ) -> Result<bool, Exceeded> {
        let verdict = match rule {
            Rule::All(parts) => return self.all(parts, value, at, seen, report),
            Rule::Reference(id) => return self.visit(*id, value, at, seen, report),
            Rule::DynamicReference(name, id) => {
                self.spend(self.scope.len())?;
                let mut anchors = self.scope.iter().map(|at| &self.program.dynamic_anchors[*at]);
                let outermost = anchors.find_map(|anchors| anchors.get(name)).unwrap_or(id);
                return self.visit(*outermost, value, at, seen, report);
            }
            Rule::If { test, then, otherwise } => {
                let branch = match self.branch(*test, value, at, seen)? {
                    (true, seen) => then.map(|then| (then, seen)),
                    (false, seen) => otherwise.map(|otherwise| (otherwise, seen)),
                };
                let Some((id, seen)) = branch else { return Ok(true) };
                return self.visit(id, value, at, seen, report);
            }
            Rule::DependentSchemas(schemas) => {
                let Value::Object(fields) = value else { return Ok(true) };
                let wanted = schemas.iter().filter(|(name, _)| fields.contains_key(name));
                let wanted: Vec<Id> = wanted.map(|(_, id)| *id).collect();
                return self.all(&wanted, value, at, seen, report);
            }
            Rule::Any(parts) | Rule::One(parts) => {
                match self.alternatives(rule, parts, value, at, seen, report.as_deref_mut())? {
                    Verdict::Parts(verdict) => return Ok(verdict),
                    Verdict::Own(verdict) => verdict,
                }
            }
            Rule::Not(id) => !self.visit(*id, value, at, None, None)?,
            Rule::Metaschema => {
                self.spend(COMPILE_STEPS.saturating_mul(weight(value)))?;
                compile::is_schema(value)
            }
            _ => match value {
                Value::Object(fields) => {
                    match self.of_object(rule, fields, at, seen, report.as_deref_mut())? {
                        Some(verdict) => return Ok(verdict),
                        None => self.of_value(rule, value)?,
                    }
                }
                Value::Array(items) => {
                    match self.of_array(rule, items, at, seen, report.as_deref_mut())? {
                        Some(Verdict::Parts(verdict)) => return Ok(verdict),
                        Some(Verdict::Own(verdict)) => verdict,
                        None => self.of_value(rule, value)?,
                    }
                }
                _ => self.of_value(rule, value)?,
            },
        };
        if let (false, Some(report)) = (verdict, report) {
            self.spend(LINE_STEPS)?;
            report.broken(at, rule, value);
        }
        Ok(verdict)
    }

    /// Applies all subschemas to a value.
    fn all<'v>(
        &mut self,
        parts: &[Id],
        value: &'v Value,
        at: &Path<'_>,
        mut seen: Asked<'_, Seen<'v>>,
        mut report: Asked<'_, Report>,
    ) -> Result<bool, Exceeded> {
        let mut verdict = true;
        for id in parts {
            verdict &= self.visit(*id, value, at, seen.as_deref_mut(), report.as_deref_mut())?;
            if !verdict && report.as_deref().is_none_or(Report::is_full) {
                break;
            }
        }
        Ok(verdict)
    }

    /// Tries a subschema. What it has seen counts only if it is valid.
    fn branch<'a, 'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        at: &Path<'_>,
        mut seen: Asked<'a, Seen<'v>>,
    ) -> Result<(bool, Asked<'a, Seen<'v>>), Exceeded> {
        let mut own = seen.is_some().then(Seen::default);
        let verdict = self.visit(id, value, at, own.as_mut(), None)?;
        if let (true, Some(own), Some(seen)) = (verdict, own, seen.as_deref_mut()) {
            let steps = seen.merge(own);
            self.spend(steps)?;
        }
        Ok((verdict, seen))
    }

    /// Applies `anyOf` or `oneOf`. If the value seems to be meant for one of the alternatives, the
    /// report gets the lines of that one.
    fn alternatives<'v>(
        &mut self,
        rule: &Rule,
        parts: &[Id],
        value: &'v Value,
        at: &Path<'_>,
        mut seen: Asked<'_, Seen<'v>>,
        report: Asked<'_, Report>,
    ) -> Result<Verdict, Exceeded> {
        let is_one = matches!(rule, Rule::One(_));
        let mut valid = 0;
        for id in parts {
            let verdict;
            (verdict, seen) = self.branch(*id, value, at, seen)?;
            valid += usize::from(verdict);
            if (is_one && valid == 2) || (!is_one && valid == 1 && seen.is_none()) {
                break;
            }
        }
        if let (0, Some(report)) = (valid, report) {
            let mut meant = Vec::new();
            for id in parts {
                let mut own = Report::about(at);
                self.visit(*id, value, at, None, Some(&mut own))?;
                if !own.is_meant_for_another && !own.is_empty() {
                    meant.push(own);
                }
            }
            if let (1, Some(own)) = (meant.len(), meant.pop()) {
                report.extend(own);
                return Ok(Verdict::Parts(false));
            }
        }
        Ok(Verdict::Own(valid == 1 || (valid > 0 && !is_one)))
    }

    /// Applies a rule that no part of the value matters to.
    fn of_value(&mut self, rule: &Rule, value: &Value) -> Result<bool, Exceeded> {
        self.spend(values::steps(rule, value))?;
        values::holds(rule, value)
    }

    /// Applies a rule for objects. Returns `None` for other rules. The report gets all its lines.
    fn of_object<'v>(
        &mut self,
        rule: &'p Rule,
        fields: &'v Map<String, Value>,
        at: &Path<'_>,
        seen: Asked<'_, Seen<'v>>,
        mut report: Asked<'_, Report>,
    ) -> Result<Option<bool>, Exceeded> {
        Ok(Some(match rule {
            Rule::Required(names) => self.required(names, fields, at, report)?,
            Rule::DependentRequired(lists) => {
                let mut verdict = true;
                for (_, names) in lists.iter().filter(|(name, _)| fields.contains_key(name)) {
                    verdict &= self.required(names, fields, at, report.as_deref_mut())?;
                }
                verdict
            }
            Rule::Properties(properties) => {
                self.properties(properties, fields, at, seen, report)?
            }
            Rule::PropertyNames(id) => {
                let mut verdict = true;
                for name in fields.keys() {
                    self.spend(name.len() / 64)?;
                    let value = Value::from(name.as_str());
                    let at = at.property(name);
                    verdict &= self.visit(*id, &value, &at, None, report.as_deref_mut())?;
                    if !verdict && report.as_deref().is_none_or(Report::is_full) {
                        break;
                    }
                }
                verdict
            }
            Rule::UnevaluatedProperties(id) => {
                let Some(seen) = seen.filter(|seen| !seen.all) else { return Ok(Some(true)) };
                self.spend(fields.keys().map(|name| 1 + name.len() / 64).sum())?;
                let open = fields.iter().filter(|(name, _)| !seen.properties.contains(&***name));
                let open: Vec<(&str, &Value)> = open.map(|(name, it)| (&**name, it)).collect();
                seen.all = true;
                self.others(*id, &open, at, report)?
            }
            _ => return Ok(None),
        }))
    }

    fn required(
        &mut self,
        names: &[String],
        fields: &Map<String, Value>,
        at: &Path<'_>,
        mut report: Asked<'_, Report>,
    ) -> Result<bool, Exceeded> {
        let mut verdict = true;
        for name in names.iter().filter(|name| !fields.contains_key(*name)) {
            verdict = false;
            let Some(report) = report.as_deref_mut().filter(|report| !report.is_full()) else {
                break;
            };
            self.spend(LINE_STEPS)?;
            report.missing(at, name);
        }
        Ok(verdict)
    }

    fn properties<'v>(
        &mut self,
        properties: &'p Properties,
        fields: &'v Map<String, Value>,
        at: &Path<'_>,
        mut seen: Asked<'_, Seen<'v>>,
        mut report: Asked<'_, Report>,
    ) -> Result<bool, Exceeded> {
        let Properties { named, patterns, additional } = properties;
        let mut verdict = true;
        let mut others = Vec::new();
        for (name, value) in fields {
            let mut parts: Vec<Id> = named.get(name).copied().into_iter().collect();
            self.spend(1 + name.len() / 32)?;
            for (pattern, id) in patterns {
                self.spend(pattern.steps(name.len()))?;
                if pattern.matches(name).ok_or(Exceeded::Steps)? {
                    parts.push(*id);
                }
            }
            if parts.is_empty() {
                others.push((&**name, value));
                continue;
            }
            if let Some(seen) = seen.as_deref_mut() {
                seen.properties.insert(name);
            }
            verdict &= self.all(&parts, value, &at.property(name), None, report.as_deref_mut())?;
            if !verdict && report.as_deref().is_none_or(Report::is_full) {
                return Ok(false);
            }
        }
        let Some(additional) = additional else { return Ok(verdict) };
        if let Some(seen) = seen {
            seen.all = true;
        }
        Ok(verdict & self.others(*additional, &others, at, report)?)
    }

    /// Applies a subschema to the properties that no other one is for.
    fn others(
        &mut self,
        id: Id,
        fields: &[(&str, &Value)],
        at: &Path<'_>,
        mut report: Asked<'_, Report>,
    ) -> Result<bool, Exceeded> {
        self.spend(fields.len())?;
        if let ([Rule::Never], false) = (&*self.program.nodes[id].rules, fields.is_empty()) {
            if let Some(report) = report {
                self.spend(LINE_STEPS)?;
                let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                report.unknown_properties(at, &names);
            }
            return Ok(false);
        }
        let mut verdict = true;
        for (name, value) in fields {
            let at = at.property(name);
            verdict &= self.visit(id, value, &at, None, report.as_deref_mut())?;
            if !verdict && report.as_deref().is_none_or(Report::is_full) {
                break;
            }
        }
        Ok(verdict)
    }

    /// Applies a rule for arrays. Returns `None` for other rules.
    fn of_array<'v>(
        &mut self,
        rule: &'p Rule,
        items: &'v [Value],
        at: &Path<'_>,
        mut seen: Asked<'_, Seen<'v>>,
        mut report: Asked<'_, Report>,
    ) -> Result<Option<Verdict>, Exceeded> {
        let part = |at: usize| match rule {
            Rule::Items { first, rest } => first.get(at).or(rest.as_ref()).copied(),
            Rule::UnevaluatedItems(id) => Some(*id),
            _ => None,
        };
        match rule {
            Rule::Items { .. } | Rule::UnevaluatedItems(_) => {
                self.spend(items.len())?;
                let mut verdict = true;
                for (number, item) in items.iter().enumerate() {
                    let is_open = match (rule, seen.as_deref()) {
                        (Rule::UnevaluatedItems(_), Some(seen)) => {
                            !seen.all && number >= seen.first_items && !seen.items.contains(&number)
                        }
                        _ => true,
                    };
                    let Some(id) = part(number).filter(|_| is_open) else { continue };
                    let at = at.item(number);
                    verdict &= self.visit(id, item, &at, None, report.as_deref_mut())?;
                    if !verdict && report.as_deref().is_none_or(Report::is_full) {
                        break;
                    }
                }
                match (rule, seen) {
                    (Rule::Items { first, rest: None }, Some(seen)) => {
                        seen.first_items = seen.first_items.max(first.len());
                    }
                    (_, Some(seen)) => seen.all = true,
                    _ => {}
                }
                Ok(Some(Verdict::Parts(verdict)))
            }
            Rule::Contains { id, least, most, marks } => {
                let mut found = 0;
                for (number, item) in items.iter().enumerate() {
                    if self.visit(*id, item, &at.item(number), None, None)? {
                        found += 1;
                        if let Some(seen) = seen.as_deref_mut().filter(|_| *marks) {
                            seen.items.insert(number);
                        }
                    }
                }
                let fits = found >= *least && most.is_none_or(|most| found <= most);
                Ok(Some(Verdict::Own(fits)))
            }
            Rule::UniqueItems => {
                let weight = items.iter().map(weight).sum::<usize>();
                self.spend(2 * weight)?;
                Ok(Some(Verdict::Own(are_unique(items))))
            }
            _ => Ok(None),
        }
    }
}

/// Who is to blame for a rule that is broken.
enum Verdict {
    /// A part, which the report has a line about.
    Parts(bool),
    Own(bool),
}
