//! The estimated size of requests in a role.

use std::sync::Mutex;

use loopwright_core::session::Profile;

use super::*;

/// A policy that records the estimated size of each request, and replaces nothing.
#[derive(Clone, Default)]
struct Sizes(Arc<Mutex<Vec<u64>>>);

impl CompactionPolicy for Sizes {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        self.0.lock().unwrap().push(context.tokens);
        None
    }

    fn finish(
        &self,
        _: &CompactionContext<'_>,
        _: &CompactionPlan,
        _: Option<&str>,
    ) -> Replacement {
        Replacement::new("")
    }
}

/// A pattern that answers with a profile.
struct InRole(Profile);

#[loopwright_core::async_trait]
impl BehaviorPattern for InRole {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        PiPattern.next_step(&mut step.with_profile(self.0.clone())).await
    }
}

/// C83: the estimate counts the system prompt and the instructions of the answering role.
#[tokio::test(start_paused = true)]
async fn the_prompt_of_a_role_is_counted() {
    let mut found = Vec::new();
    for profile in [
        Profile::new(),
        Profile::new().system("long ".repeat(1000)),
        Profile::new().instruction("long ".repeat(1000)),
    ] {
        let sizes = Sizes::default();
        let options = |agent: AgentBuilder| agent.compaction(sizes.clone());
        let harness = Harness::new(InRole(profile), [Script::text("Yes.")], options).await;
        harness.handle.prompt("Is it long?").await.unwrap();
        found.push(sizes.0.lock().unwrap()[0]);
    }
    assert!(found[1] > found[0] + 1000 && found[2] > found[0] + 1000, "{found:?}");
}
