//! [`Toolbox`]: the tools of a run, with unique names, compiled schemas and rules for approval.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::ToolboxError;
use crate::extensions::Extensions;
use crate::hex;
use crate::tool::ToolList;
use crate::tool::schema::Schema;
use crate::tool::{Approval, Effect, NeedsApproval, Tool, ToolSpec};

/// A set of tools with unique, valid names and compiled schemas. Cheap to clone.
///
/// ```
/// use loopwright_core::{ToolError, tool_fn};
/// use loopwright_core::tool::Toolbox;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Nothing {}
///
/// let tools = Toolbox::new().with(tool_fn("ping", "Answers pong.", async |_: Nothing, _| {
///     Ok::<_, ToolError>("pong")
/// }))?;
/// assert!(tools.names().eq(["ping"]));
/// # Ok::<(), loopwright_core::tool::ToolboxError>(())
/// ```
#[derive(Clone, Default)]
pub struct Toolbox {
    entries: BTreeMap<Arc<str>, Entry>,
    list: Arc<ToolList>,
    /// Collected tools that are invalid here. Adding the toolbox elsewhere reports them.
    refused: Vec<Arc<dyn Tool>>,
}

/// A tool under its name in this toolbox.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) spec: Arc<ToolSpec>,
    pub(crate) tool: Arc<dyn Tool>,
    /// The specification as the tool returned it, to recognise the tool at the next run.
    own_spec: Arc<ToolSpec>,
    schema: Arc<Schema>,
}

impl Entry {
    /// Checks arguments with the tool's own types, if schemas are not checked.
    fn check_types(&self, arguments: &Value) -> Result<(), String> {
        if cfg!(feature = "schema") {
            return Ok(());
        }
        // No call runs with unchecked arguments.
        let unchecked = || Err("The tool cannot check these arguments, so it did not run.".into());
        self.tool.check_arguments(arguments).unwrap_or_else(unchecked)
    }
}

impl Toolbox {
    /// Builds an empty toolbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// Fails if the tool's name is invalid or taken, or its schema is invalid.
    pub fn with(self, tool: impl Tool + 'static) -> Result<Self, ToolboxError> {
        self.with_all([Arc::new(tool) as Arc<dyn Tool>])
    }

    /// Adds tools. Fails like [`with`](Toolbox::with).
    pub fn with_all(
        mut self,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Result<Self, ToolboxError> {
        for tool in tools {
            self.add(tool)?;
        }
        self.relist();
        Ok(self)
    }

    /// Adds the tools of a source. Their names get its prefix and are made valid and unique.
    /// Schemas compiled in `before` are reused.
    pub(crate) fn with_source(
        mut self,
        prefix: &str,
        tools: Vec<Arc<dyn Tool>>,
        before: &Toolbox,
    ) -> Result<Self, ToolboxError> {
        for tool in tools {
            let own_spec = tool.spec().clone();
            let name = self.free_name(&legal_name(&format!("{prefix}{}", own_spec.name)));
            let known = before
                .entries
                .get(&*name)
                .filter(|entry| Arc::ptr_eq(&entry.own_spec, &own_spec))
                .cloned();
            let spec = match &known {
                Some(entry) => entry.spec.clone(),
                None if *name == *own_spec.name => own_spec.clone(),
                None => Arc::new(ToolSpec { name, ..(*own_spec).clone() }),
            };
            self.insert(spec, own_spec, tool, known.map(|entry| entry.schema))?;
        }
        self.relist();
        Ok(self)
    }

    /// Replaces each tool by another one with the same specification.
    #[cfg(feature = "testing")]
    pub(crate) fn map_tools(mut self, map: impl Fn(&Arc<dyn Tool>) -> Arc<dyn Tool>) -> Self {
        self.entries.values_mut().for_each(|entry| entry.tool = map(&entry.tool));
        self
    }

    /// Iterates over the names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(|name| &**name)
    }

    /// Iterates over the tools, sorted by name.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.entries.values().map(|entry| &entry.tool)
    }

    /// Returns the tool with this name.
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.entries.get(name).map(|entry| &entry.tool)
    }

    /// Returns the specification of the tool with this name.
    pub fn spec(&self, name: &str) -> Option<&Arc<ToolSpec>> {
        self.entries.get(name).map(|entry| &entry.spec)
    }

    /// Coerces and validates the JSON text of a call's arguments. The error tells the model what to
    /// correct: each path and the received value.
    pub fn validate(&self, name: &str, arguments: &str) -> Result<Value, String> {
        let entry = self.entry(name)?;
        let arguments = entry.schema.read_arguments(arguments)?;
        entry.check_types(&arguments)?;
        Ok(arguments)
    }

    /// Coerces and validates arguments that are already parsed.
    pub(crate) fn validate_value(&self, name: &str, mut arguments: Value) -> Result<Value, String> {
        let entry = self.entry(name)?;
        entry.schema.check(&mut arguments)?;
        entry.check_types(&arguments)?;
        Ok(arguments)
    }

    pub(crate) fn entry(&self, name: &str) -> Result<&Entry, String> {
        self.entries.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            let known = if names.is_empty() {
                "there are no tools".into()
            } else {
                format!("the tools are: {}", names.join(", "))
            };
            format!("There is no tool `{name}`; {known}.")
        })
    }

    /// Returns the list of all tools, for a request.
    pub(crate) fn list(&self) -> &Arc<ToolList> {
        &self.list
    }

    fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolboxError> {
        let spec = tool.spec().clone();
        if legal_name(&spec.name) != *spec.name {
            return Err(ToolboxError::Name(spec.name.clone()));
        }
        self.insert(spec.clone(), spec, tool, None)
    }

    fn insert(
        &mut self,
        spec: Arc<ToolSpec>,
        own_spec: Arc<ToolSpec>,
        tool: Arc<dyn Tool>,
        schema: Option<Arc<Schema>>,
    ) -> Result<(), ToolboxError> {
        if self.entries.contains_key(&spec.name) {
            return Err(ToolboxError::Twice(spec.name.clone()));
        }
        if cfg!(not(feature = "schema")) && tool.check_arguments(&Value::Null).is_none() {
            return Err(ToolboxError::Unchecked(spec.name.clone()));
        }
        let schema = match schema {
            Some(schema) => schema,
            None => spec
                .compiled
                .of(&spec.schema)
                .map_err(|why| ToolboxError::Schema { name: spec.name.clone(), why })?,
        };
        self.entries.insert(spec.name.clone(), Entry { spec, tool, own_spec, schema });
        Ok(())
    }

    fn relist(&mut self) {
        self.list = Arc::new(ToolList::new(
            self.entries.values().map(|entry| entry.spec.clone()).collect(),
        ));
    }

    fn free_name(&self, name: &str) -> Arc<str> {
        let numbered = (2..).map(|n| {
            let end = format!("_{n}");
            format!("{}{end}", &name[..name.len().min(64 - end.len())])
        });
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        names.find(|name| !self.entries.contains_key(name.as_str())).unwrap_or_default().into()
    }
}

/// Collects tools without an error to handle, for tools that are known to be valid together, such
/// as a crate's own. A tool that [`Toolbox::with_all`] would reject cannot be called in this
/// toolbox. It causes that error when the toolbox is added to an agent or to another toolbox.
impl FromIterator<Arc<dyn Tool>> for Toolbox {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Tool>>>(tools: I) -> Self {
        let mut all = Toolbox::new();
        for tool in tools {
            if all.add(tool.clone()).is_err() {
                all.refused.push(tool);
            }
        }
        all.relist();
        all
    }
}

/// Iterates over all tools that were added, for
/// [`AgentBuilder::tools`](crate::AgentBuilder::tools) or [`Toolbox::with_all`].
impl IntoIterator for Toolbox {
    type Item = Arc<dyn Tool>;
    type IntoIter = std::vec::IntoIter<Arc<dyn Tool>>;

    fn into_iter(self) -> Self::IntoIter {
        let tools: Vec<_> =
            self.entries.into_values().map(|entry| entry.tool).chain(self.refused).collect();
        tools.into_iter()
    }
}

/// Replaces every character that some provider rejects with `_`, and truncates to 64 characters.
fn legal_name(name: &str) -> String {
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }
    };
    let name: String = name.chars().map(legal).take(64).collect();
    if name.is_empty() { "tool".into() } else { name }
}

/// The agent's rules about which tools run without approval.
#[derive(Clone, Default)]
pub(crate) struct ApprovalRules {
    pub(crate) all: bool,
    pub(crate) names: HashSet<String>,
    pub(crate) predicates: Vec<AutoPredicate>,
}

/// A predicate that returns `true` if a call may run without approval.
pub(crate) type AutoPredicate = Arc<dyn Fn(&ToolSpec, &Value, &Extensions) -> bool + Send + Sync>;

impl ApprovalRules {
    /// Returns whether a tool's calls need approval, as far as that is the same for all calls.
    pub(crate) fn needs_approval(&self, spec: &ToolSpec) -> NeedsApproval {
        let is_auto =
            spec.effect == Effect::ReadOnly || self.all || self.names.contains(&*spec.name);
        match &spec.approval {
            Approval::Never => NeedsApproval::Never,
            Approval::Always => NeedsApproval::Always,
            Approval::When(_) => NeedsApproval::Sometimes,
            Approval::ByEffect if is_auto => NeedsApproval::Never,
            Approval::AlwaysIf(_) if is_auto => NeedsApproval::Sometimes,
            Approval::ByEffect | Approval::AlwaysIf(_) if self.predicates.is_empty() => {
                NeedsApproval::Always
            }
            Approval::ByEffect | Approval::AlwaysIf(_) => NeedsApproval::Sometimes,
        }
    }

    /// Returns whether a call runs without approval. The tool's own rule applies first. Without
    /// one, the call runs if the tool is read-only or these rules list it. A predicate that panics
    /// requires approval.
    pub(crate) fn approves(
        &self,
        spec: &ToolSpec,
        arguments: &Value,
        extensions: &Extensions,
    ) -> bool {
        let holds = |f: &dyn Fn() -> bool, otherwise: bool| {
            catch_unwind(AssertUnwindSafe(f)).unwrap_or(otherwise)
        };
        match &spec.approval {
            Approval::Never => true,
            Approval::Always => false,
            Approval::When(predicate) => !holds(&|| predicate(arguments, extensions), true),
            Approval::AlwaysIf(predicate) if holds(&|| predicate(arguments, extensions), true) => {
                false
            }
            Approval::ByEffect | Approval::AlwaysIf(_) => {
                spec.effect == Effect::ReadOnly
                    || self.all
                    || self.names.contains(&*spec.name)
                    || self
                        .predicates
                        .iter()
                        .any(|p| holds(&|| p(spec, arguments, extensions), false))
            }
        }
    }
}

/// Returns the digest that a decision must name: of the tool, the arguments that would run, and the
/// request of a suspended tool.
pub(crate) fn digest(
    name: &str,
    arguments: &Value,
    request: Option<&crate::error::ActionRequest>,
) -> Arc<str> {
    let request = request.map(|r| format!("{}\0{}", r.kind, r.data)).unwrap_or_default();
    hex_digest(&format!("{name}\0{arguments}\0{request}"))
}

/// Returns the digest that an approval of a call must name. It includes the tool's definition if
/// others can change it.
pub(crate) fn digest_of_call(name: &str, arguments: &Value, definition: Option<&str>) -> Arc<str> {
    match definition {
        None => digest(name, arguments, None),
        Some(definition) => hex_digest(&format!("{name}\0{arguments}\0\0{definition}")),
    }
}

/// Returns the first 128 bits of the SHA-256 hash of a text, in hexadecimal digits.
pub(crate) fn hex_digest(text: &str) -> Arc<str> {
    hex::encode(&Sha256::digest(text)[..16]).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::ApprovalPredicate;
    use crate::tool::function::tool_fn;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}

    fn tool(name: &str) -> Arc<dyn Tool> {
        Arc::new(tool_fn(name, "", async |_: Nothing, _| Ok::<_, crate::ToolError>("")))
    }

    #[test]
    fn a_second_tool_of_a_name_and_an_illegal_name_are_refused() {
        let tools = Toolbox::new().with_all([tool("a")]).unwrap();
        assert_eq!(
            tools.clone().with_all([tool("a")]).err(),
            Some(ToolboxError::Twice("a".into()))
        );
        assert_eq!(tools.with_all([tool("a.b")]).err(), Some(ToolboxError::Name("a.b".into())));
    }

    #[test]
    fn a_collected_tool_that_is_not_valid_is_reported_where_errors_are_returned() {
        let good: Toolbox = [tool("b"), tool("a")].into_iter().collect();
        assert!(good.names().eq(["a", "b"]) && good.tool("a").is_some() && good.list().len() == 2);
        assert!(Toolbox::new().with_all(good).unwrap().names().eq(["a", "b"]));
        let twice: Toolbox = [tool("a"), tool("a")].into_iter().collect();
        assert_eq!(twice.tools().count(), 1);
        assert_eq!(Toolbox::new().with_all(twice).err(), Some(ToolboxError::Twice("a".into())));
        let illegal: Toolbox = [tool("a.b")].into_iter().collect();
        assert_eq!(illegal.tools().count(), 0);
        assert_eq!(Toolbox::new().with_all(illegal).err(), Some(ToolboxError::Name("a.b".into())));
    }

    #[test]
    fn names_of_a_source_are_made_legal_and_unique() {
        let before = Toolbox::new();
        let base = Toolbox::new().with_all([tool("m_a_b")]).unwrap();
        let long = "x".repeat(80);
        let tools = base
            .with_source("m_", vec![tool("a.b"), tool("a b"), tool(&long), tool(&long)], &before)
            .unwrap();
        let names: Vec<&str> = tools.names().collect();
        assert_eq!(names.iter().filter(|n| n.starts_with("m_a_b")).count(), 3);
        assert!(names.iter().all(|n| n.len() <= 64), "{names:?}");
        assert_eq!(names.len(), 5);
    }

    #[test]
    fn a_schema_is_compiled_once() {
        let source = tool("a.b");
        let one = Toolbox::new().with_source("", vec![source.clone()], &Toolbox::new()).unwrap();
        let two = Toolbox::new().with_source("", vec![source], &one).unwrap();
        assert!(Arc::ptr_eq(&one.entries["a_b"].schema, &two.entries["a_b"].schema));
    }

    #[test]
    fn a_predicate_of_a_tool_overrides_the_rules_for_the_calls_that_it_selects() {
        let selects = |arguments: &Value, _: &Extensions| arguments["big"] == true;
        let always_if = Approval::AlwaysIf(Arc::new(selects));
        let spec = ToolSpec::new::<Nothing>("t", "").approval(always_if);
        let free = ApprovalRules { all: true, ..ApprovalRules::default() };
        let runs = |rules: &ApprovalRules, big: bool| {
            rules.approves(&spec, &serde_json::json!({ "big": big }), &Extensions::new())
        };
        assert!(runs(&free, false) && !runs(&free, true));
        assert!(!runs(&ApprovalRules::default(), false) && !runs(&ApprovalRules::default(), true));
    }

    #[test]
    fn a_predicate_that_panics_asks() {
        let spec = ToolSpec::new::<Nothing>("t", "").approval(Approval::when(|_, _| panic!("no")));
        let rules = ApprovalRules { all: true, ..ApprovalRules::default() };
        assert!(!rules.approves(&spec, &Value::Null, &Extensions::new()));
        let rules = ApprovalRules {
            predicates: vec![Arc::new(|_, _, _| panic!("no"))],
            ..ApprovalRules::default()
        };
        assert!(!rules.approves(
            &ToolSpec::new::<Nothing>("t", ""),
            &Value::Null,
            &Extensions::new()
        ));
    }

    /// C250: The answer for all calls of a tool agrees with the decision on each call.
    #[test]
    fn a_tool_never_or_always_needs_approval_as_its_calls_do() {
        let large: ApprovalPredicate = Arc::new(|arguments: &Value, _: &Extensions| arguments == 9);
        let own = [
            Approval::ByEffect,
            Approval::Never,
            Approval::Always,
            Approval::When(large.clone()),
            Approval::AlwaysIf(large),
        ];
        let small: AutoPredicate = Arc::new(|_: &ToolSpec, arguments: &Value, _| arguments == 1);
        let rules = [
            ApprovalRules::default(),
            ApprovalRules { all: true, ..ApprovalRules::default() },
            ApprovalRules { names: ["t".into()].into(), ..ApprovalRules::default() },
            ApprovalRules { predicates: vec![small], ..ApprovalRules::default() },
        ];
        for (approval, rules) in own.iter().flat_map(|one| rules.iter().map(move |r| (one, r))) {
            for effect in [Effect::ReadOnly, Effect::AtMostOnce] {
                let spec = tool("t").spec().as_ref().clone().effect(effect);
                let spec = spec.approval(approval.clone());
                let asks = [1, 5, 9]
                    .map(|number| !rules.approves(&spec, &number.into(), &Extensions::default()));
                let expected = match asks {
                    [false, false, false] => NeedsApproval::Never,
                    [true, true, true] => NeedsApproval::Always,
                    _ => NeedsApproval::Sometimes,
                };
                assert_eq!(rules.needs_approval(&spec), expected, "{asks:?}");
            }
        }
    }
}
