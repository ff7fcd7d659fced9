//! Patterns with the guard against repeated calls.

use loopwright_core::limits::{Budget, Limits, LoopGuard};
use loopwright_core::testing::{Script, TestTool};
use loopwright_patterns::conformance::Scenario;
use loopwright_patterns::{Bounded, GenericPattern, PiPattern, Reflect};
use serde_json::json;

use crate::kit::assert_conforms;
use crate::values::value;

/// Returns a session in which the model makes the same call so many times, and then answers.
fn looks(name: &str, count: usize) -> Scenario {
    let looks = (0..count).map(|_| Script::calls([("a", "look", json!({}))]));
    Scenario::new(name, looks.chain([Script::text("Looked.")]))
        .reply_with(|request| match request.output {
            Some(_) => Script::text(&value(request).to_string()),
            None => Script::text("Looked."),
        })
        .request("Look.")
        .agent(|agent, _| {
            let limits = Limits::default().loop_guard(LoopGuard::new());
            agent.tool(TestTool::new("look")).limits(limits)
        })
        .answers_at_limit()
}

/// C497: Wherever a crash or an abort cuts a run, the note is given once, and the run ends after
/// the same calls, in a pattern and in wrappers of it.
#[tokio::test(start_paused = true)]
async fn a_guarded_pattern_conforms() {
    let scenarios = || vec![looks("a note", 4), looks("the end", 6)];
    assert_conforms(|| PiPattern, scenarios()).await;
    assert_conforms(|| GenericPattern, scenarios()).await;
    let turns = || Budget::default().turns(20);
    assert_conforms(|| Bounded::new("look", turns(), PiPattern), scenarios()).await;
    assert_conforms(|| Reflect::new("It must be good.", PiPattern), scenarios()).await;
}
