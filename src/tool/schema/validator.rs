//! [`Validator`]: validation of values within limits of time and stack.

use serde_json::Value;

use super::compile::compile;
use super::program::Program;
use super::run::Run;
use super::stack::{NO_STACK, USUAL_LEVELS, on_stack};
use super::values::Exceeded;

/// Maximum number of steps to find out whether a value is valid. A step takes about 20 to 50 ns.
const MAX_STEPS: usize = 700_000;
/// Maximum number of steps to find the errors.
const MAX_ERROR_STEPS: usize = 300_000;
/// Maximum levels of recursion.
const MAX_DEPTH: usize = 4_000;

/// A compiled schema. Compiling it and validating a value take at most some tens of milliseconds;
/// anything slower is refused.
pub(crate) struct Validator(Program);

impl Validator {
    /// Compiles a schema. The error names the mistake or the exceeded limit.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        compile(schema).map(Validator)
    }

    /// Validates a value. The error lists each path and what was received.
    pub(crate) fn validate(&self, value: &Value) -> Result<(), String> {
        match self.run(MAX_STEPS, |run| run.verdict(value))? {
            Ok(true) => Ok(()),
            Ok(false) => {
                let report = self.run(MAX_ERROR_STEPS, |run| run.report(value))?;
                let why = match report {
                    Ok(report) if !report.is_empty() => report.into_text(),
                    _ => "- /: finding what does not fit would take too many steps".into(),
                };
                Err(format!("The arguments do not fit the schema:\n{why}"))
            }
            Err(_) => Err("The arguments cannot be checked against the schema: that would take \
                           too many steps. Use a smaller value."
                .into()),
        }
    }

    /// Returns whether a value is valid under a part of the schema that was compiled, which must
    /// still be at its place. Returns `None` if `steps`, from which it takes, or the stack do not
    /// suffice.
    pub(crate) fn fits(&self, part: &Value, value: &Value, steps: &mut usize) -> Option<bool> {
        let id = *self.0.places.get(&std::ptr::from_ref(part).addr())?;
        let mut run = Run::new(&self.0, *steps, USUAL_LEVELS);
        let verdict = run.verdict_of(id, value);
        *steps = run.left();
        verdict.ok()
    }

    /// Validates with the stack that is there, and on a larger one if that is not enough.
    fn run<T: Send>(
        &self,
        max_steps: usize,
        run: impl Fn(&mut Run<'_>) -> Result<T, Exceeded> + Sync,
    ) -> Result<Result<T, Exceeded>, &'static str> {
        let mut flat = Run::new(&self.0, max_steps, USUAL_LEVELS);
        match run(&mut flat) {
            Err(Exceeded::Depth) => {
                let left = flat.left();
                let deep = || run(&mut Run::new(&self.0, left, MAX_DEPTH));
                on_stack(MAX_DEPTH, deep).map_err(|_| NO_STACK)
            }
            done => Ok(done),
        }
    }
}
