//! [`Run`]: one validation of a value, within limits of steps and of recursion.

use serde_json::{Map, Value};

use super::compile;
use super::course::{Course, Entry};
use super::equal::are_unique;
use super::program::{Id, Node, Program, Properties, Rule};
use super::report::{Path, Report};
use super::seen::Seen;
use super::values::{self, Exceeded};
use crate::json::{text_weight, weight};

/// Steps of compiling a schema, for each value in it.
const COMPILE_STEPS: usize = 100;
/// Steps of writing a line.
const LINE_STEPS: usize = 50;

/// A validation. It applies each rule to each value that it applies to.
pub(super) struct Run<'p> {
    program: &'p Program,
    course: Course,
    /// The report about the value. Without one, the first broken rule decides.
    report: Option<Report>,
}

impl<'p> Run<'p> {
    pub(super) fn new(program: &'p Program, max_steps: usize, max_depth: usize) -> Self {
        Run { program, course: Course::new(max_steps, max_depth), report: None }
    }

    /// Returns whether a value is valid.
    pub(super) fn verdict(&mut self, value: &Value) -> Result<bool, Exceeded> {
        self.verdict_of(0, value)
    }

    /// Returns whether a value is valid under a subschema.
    pub(super) fn verdict_of(&mut self, id: Id, value: &Value) -> Result<bool, Exceeded> {
        self.visit(id, value, &Path::ROOT, None)
    }

    /// Reports what is not valid, as far as the steps allow. Fails only if the value is too deep.
    pub(super) fn report(&mut self, value: &Value) -> Result<Report, Exceeded> {
        self.report = Some(Report::default());
        match self.visit(0, value, &Path::ROOT, None) {
            Err(Exceeded::Depth) => Err(Exceeded::Depth),
            _ => Ok(self.report.take().unwrap_or_default()),
        }
    }

    /// Returns the steps that are left.
    pub(super) fn left(&self) -> usize {
        self.course.left
    }

    fn spend(&mut self, steps: usize) -> Result<(), Exceeded> {
        self.course.spend(steps)
    }

    /// Adds a line to the report, if one is wanted.
    fn line(&mut self, add: impl FnOnce(&mut Report)) -> Result<(), Exceeded> {
        if self.report.is_some() {
            self.spend(LINE_STEPS)?;
        }
        self.report.as_mut().map(add);
        Ok(())
    }

    /// Returns whether nothing more is to be found out about a value.
    fn is_decided(&self, verdict: bool) -> bool {
        !verdict && self.report.as_ref().is_none_or(Report::is_full)
    }

    /// Validates a value that may be invalid: nothing is reported.
    fn try_visit<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        at: &Path<'_>,
        seen: Option<&mut Seen<'v>>,
    ) -> Result<bool, Exceeded> {
        let report = self.report.take();
        let verdict = self.visit(id, value, at, seen);
        self.report = report;
        verdict
    }

    fn visit<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        at: &Path<'_>,
        seen: Option<&mut Seen<'v>>,
    ) -> Result<bool, Exceeded> {
        let program = self.program;
        let is_verdict = seen.is_none() && self.report.is_none();
        match self.course.enter(program, id, value, seen.is_some(), is_verdict)? {
            Entry::Known(verdict) => Ok(verdict),
            Entry::New(visit) => {
                let verdict = self.rules(&program.nodes[id], value, at, seen)?;
                self.course.leave(visit, verdict);
                Ok(verdict)
            }
        }
    }

    fn rules<'v>(
        &mut self,
        node: &'p Node,
        value: &'v Value,
        at: &Path<'_>,
        mut seen: Option<&mut Seen<'v>>,
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
            verdict &= self.rule(rule, value, at, seen)?;
            if self.is_decided(verdict) {
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
        seen: Option<&mut Seen<'v>>,
    ) -> Result<bool, Exceeded> {
        match self.apply(rule, value, at, seen)? {
            Verdict::Parts(verdict) | Verdict::Own(verdict @ true) => Ok(verdict),
            Verdict::Own(false) => {
                self.line(|report| report.broken(at, rule, value))?;
                Ok(false)
            }
        }
    }

    fn apply<'v>(
        &mut self,
        rule: &'p Rule,
        value: &'v Value,
        at: &Path<'_>,
        seen: Option<&mut Seen<'v>>,
    ) -> Result<Verdict, Exceeded> {
        Ok(match (rule, value) {
            (Rule::All(parts), _) => Verdict::Parts(self.all(parts, value, at, seen)?),
            (Rule::Any(parts) | Rule::One(parts), _) => {
                self.alternatives(rule, parts, value, at, seen)?
            }
            (Rule::Not(id), _) => Verdict::Own(!self.try_visit(*id, value, at, None)?),
            (Rule::If { test, then, otherwise }, _) => {
                let (holds, seen) = self.branch(*test, value, at, seen)?;
                match if holds { then } else { otherwise } {
                    Some(id) => Verdict::Parts(self.visit(*id, value, at, seen)?),
                    None => Verdict::Own(true),
                }
            }
            (Rule::Reference(id), _) => Verdict::Parts(self.visit(*id, value, at, seen)?),
            (Rule::DynamicReference(name, id), _) => {
                self.spend(self.course.scope.len())?;
                let scope = self.course.scope.iter();
                let mut anchors = scope.map(|at| &self.program.dynamic_anchors[*at]);
                let outermost = anchors.find_map(|anchors| anchors.get(name)).unwrap_or(id);
                Verdict::Parts(self.visit(*outermost, value, at, seen)?)
            }
            (Rule::Metaschema, _) => {
                self.spend(COMPILE_STEPS.saturating_mul(weight(value)))?;
                Verdict::Own(compile::is_schema(value))
            }
            (Rule::DependentSchemas(schemas), Value::Object(fields)) => {
                let wanted = schemas.iter().filter(|(name, _)| fields.contains_key(name));
                let wanted: Vec<Id> = wanted.map(|(_, id)| *id).collect();
                Verdict::Parts(self.all(&wanted, value, at, seen)?)
            }
            (Rule::Required(names), Value::Object(fields)) => {
                Verdict::Parts(self.required(names, fields, at)?)
            }
            (Rule::DependentRequired(lists), Value::Object(fields)) => {
                Verdict::Parts(self.dependent_required(lists, fields, at)?)
            }
            (Rule::Properties(properties), Value::Object(fields)) => {
                Verdict::Parts(self.properties(properties, fields, at, seen)?)
            }
            (Rule::PropertyNames(id), Value::Object(fields)) => {
                Verdict::Parts(self.names(*id, fields, at)?)
            }
            (Rule::UnevaluatedProperties(id), Value::Object(fields)) => {
                Verdict::Parts(self.unevaluated_properties(*id, fields, at, seen)?)
            }
            (Rule::Items { first, rest }, Value::Array(items)) => {
                Verdict::Parts(self.items(first, *rest, items, at, seen)?)
            }
            (Rule::UnevaluatedItems(id), Value::Array(items)) => {
                Verdict::Parts(self.unevaluated_items(*id, items, at, seen)?)
            }
            (Rule::Contains { id, least, most, marks }, Value::Array(items)) => {
                let found = self.contained(*id, items, at, seen.filter(|_| *marks))?;
                Verdict::Own(found >= *least && most.is_none_or(|most| found <= most))
            }
            (Rule::UniqueItems, Value::Array(items)) => {
                self.spend(2 * items.iter().map(weight).sum::<usize>())?;
                Verdict::Own(are_unique(items))
            }
            _ => {
                self.spend(values::steps(rule, value))?;
                Verdict::Own(values::holds(rule, value)?)
            }
        })
    }

    /// Applies all subschemas to a value.
    fn all<'v>(
        &mut self,
        parts: &[Id],
        value: &'v Value,
        at: &Path<'_>,
        mut seen: Option<&mut Seen<'v>>,
    ) -> Result<bool, Exceeded> {
        let mut verdict = true;
        for id in parts {
            verdict &= self.visit(*id, value, at, seen.as_deref_mut())?;
            if self.is_decided(verdict) {
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
        mut seen: Option<&'a mut Seen<'v>>,
    ) -> Result<(bool, Option<&'a mut Seen<'v>>), Exceeded> {
        let mut own = seen.is_some().then(Seen::default);
        let verdict = self.try_visit(id, value, at, own.as_mut())?;
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
        mut seen: Option<&mut Seen<'v>>,
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
        if valid == 0 && self.report.is_some() {
            let mut meant = Vec::new();
            for id in parts {
                let report = self.report.replace(Report::about(at));
                let done = self.visit(*id, value, at, None);
                let own = std::mem::replace(&mut self.report, report);
                done?;
                meant.extend(own.filter(|own| !own.is_meant_for_another && !own.is_empty()));
            }
            if let (1, Some(own), Some(report)) = (meant.len(), meant.pop(), &mut self.report) {
                report.extend(own);
                return Ok(Verdict::Parts(false));
            }
        }
        Ok(Verdict::Own(valid == 1 || (valid > 0 && !is_one)))
    }

    fn required(
        &mut self,
        names: &[String],
        fields: &Map<String, Value>,
        at: &Path<'_>,
    ) -> Result<bool, Exceeded> {
        let mut verdict = true;
        for name in names.iter().filter(|name| !fields.contains_key(*name)) {
            verdict = false;
            self.line(|report| report.missing(at, name))?;
            if self.is_decided(verdict) {
                break;
            }
        }
        Ok(verdict)
    }

    fn dependent_required(
        &mut self,
        lists: &[(String, Vec<String>)],
        fields: &Map<String, Value>,
        at: &Path<'_>,
    ) -> Result<bool, Exceeded> {
        let mut verdict = true;
        for (_, names) in lists.iter().filter(|(name, _)| fields.contains_key(name)) {
            verdict &= self.required(names, fields, at)?;
        }
        Ok(verdict)
    }

    fn names(
        &mut self,
        id: Id,
        fields: &Map<String, Value>,
        at: &Path<'_>,
    ) -> Result<bool, Exceeded> {
        let mut verdict = true;
        for name in fields.keys() {
            self.spend(text_weight(name))?;
            let value = Value::from(name.as_str());
            verdict &= self.visit(id, &value, &at.property(name), None)?;
            if self.is_decided(verdict) {
                break;
            }
        }
        Ok(verdict)
    }

    fn properties<'v>(
        &mut self,
        properties: &'p Properties,
        fields: &'v Map<String, Value>,
        at: &Path<'_>,
        mut seen: Option<&mut Seen<'v>>,
    ) -> Result<bool, Exceeded> {
        let Properties { named, patterns, additional } = properties;
        let mut verdict = true;
        let mut others = Vec::new();
        for (name, value) in fields {
            let mut parts: Vec<Id> = named.get(name).copied().into_iter().collect();
            self.spend(text_weight(name))?;
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
            verdict &= self.all(&parts, value, &at.property(name), None)?;
            if self.is_decided(verdict) {
                return Ok(false);
            }
        }
        let Some(additional) = additional else { return Ok(verdict) };
        if let Some(seen) = seen {
            seen.all = true;
        }
        Ok(verdict & self.others(*additional, &others, at)?)
    }

    fn unevaluated_properties(
        &mut self,
        id: Id,
        fields: &Map<String, Value>,
        at: &Path<'_>,
        seen: Option<&mut Seen<'_>>,
    ) -> Result<bool, Exceeded> {
        let Some(seen) = seen.filter(|seen| !seen.all) else { return Ok(true) };
        self.spend(fields.keys().map(|name| text_weight(name)).sum())?;
        let open = fields.iter().filter(|(name, _)| !seen.properties.contains(&***name));
        let open: Vec<(&str, &Value)> = open.map(|(name, it)| (&**name, it)).collect();
        seen.all = true;
        self.others(id, &open, at)
    }

    /// Applies a subschema to the properties that no other one is for.
    fn others(
        &mut self,
        id: Id,
        fields: &[(&str, &Value)],
        at: &Path<'_>,
    ) -> Result<bool, Exceeded> {
        self.spend(fields.len())?;
        if let ([Rule::Never], false) = (&*self.program.nodes[id].rules, fields.is_empty()) {
            let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
            self.line(|report| report.unknown_properties(at, &names))?;
            return Ok(false);
        }
        let mut verdict = true;
        for (name, value) in fields {
            let at = at.property(name);
            verdict &= self.visit(id, value, &at, None)?;
            if self.is_decided(verdict) {
                break;
            }
        }
        Ok(verdict)
    }

    fn items(
        &mut self,
        first: &[Id],
        rest: Option<Id>,
        items: &[Value],
        at: &Path<'_>,
        seen: Option<&mut Seen<'_>>,
    ) -> Result<bool, Exceeded> {
        if let Some(seen) = seen {
            seen.all |= rest.is_some();
            seen.first_items = seen.first_items.max(first.len());
        }
        self.spend(items.len())?;
        let parts = items.iter().enumerate();
        let parts =
            parts.filter_map(|(at, item)| Some((first.get(at).copied().or(rest)?, at, item)));
        self.each(parts, at)
    }

    fn unevaluated_items(
        &mut self,
        id: Id,
        items: &[Value],
        at: &Path<'_>,
        seen: Option<&mut Seen<'_>>,
    ) -> Result<bool, Exceeded> {
        let Some(seen) = seen.filter(|seen| !seen.all) else { return Ok(true) };
        self.spend(items.len())?;
        let parts = items.iter().enumerate().skip(seen.first_items);
        let parts = parts.filter(|(at, _)| !seen.items.contains(at));
        let verdict = self.each(parts.map(|(at, item)| (id, at, item)), at);
        seen.all = true;
        verdict
    }

    /// Applies a subschema to each item at its position.
    fn each<'v>(
        &mut self,
        items: impl Iterator<Item = (Id, usize, &'v Value)>,
        at: &Path<'_>,
    ) -> Result<bool, Exceeded> {
        let mut verdict = true;
        for (id, number, item) in items {
            verdict &= self.visit(id, item, &at.item(number), None)?;
            if self.is_decided(verdict) {
                break;
            }
        }
        Ok(verdict)
    }

    /// Counts the items that fit a subschema.
    fn contained(
        &mut self,
        id: Id,
        items: &[Value],
        at: &Path<'_>,
        mut seen: Option<&mut Seen<'_>>,
    ) -> Result<u64, Exceeded> {
        let mut found = 0;
        for (number, item) in items.iter().enumerate() {
            if self.try_visit(id, item, &at.item(number), None)? {
                found += 1;
                if let Some(seen) = seen.as_deref_mut() {
                    seen.items.insert(number);
                }
            }
        }
        Ok(found)
    }
}

/// Who is to blame for a rule that is broken.
enum Verdict {
    /// A part, which the report has a line about.
    Parts(bool),
    Own(bool),
}
