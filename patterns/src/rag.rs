//! [`Rag`]: passages are retrieved before another pattern answers, and the answer cites them.

mod search;

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::message::{CustomMessage, ToolResult};
use loopwright_core::retrieval::{Passage, Retriever};
use loopwright_core::session::{Call, Profile};
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, Tool};
use serde::Deserialize;
use serde_json::json;

pub use search::search_tool;

/// A pattern that searches with the user's request, lets another pattern answer from the passages
/// found, and adds the passages that the answer cites.
///
/// ```text
/// take_input ─▶ search ─▶ then: answer, and cite ─▶ remember the citations ─▶ done
///                           │      ▲
///                           └──────┘ the model may search, too
/// ```
///
/// The search is a call of the tool `search`, which the pattern provides. Front ends show it, and
/// the log has its result, so that a crash does not repeat it and later requests see the passages.
/// The model has the tool, too, for further searches. Passages that were found for the request and
/// that the answer cites follow as a custom message of the kind `citations`. It is a JSON array of
/// [`Passage`]s, which may be empty; models do not see it. The query of the first search is the
/// whole text of the request.
///
/// From: Lewis et al., *Retrieval-Augmented Generation for Knowledge-Intensive NLP Tasks*, 2020.
///
/// **Use it** where every request is about the documents. **Do not use it** where few requests are:
/// give the agent a [`search_tool`] and let the model decide.
///
/// ```
/// # use async_trait::async_trait;
/// # use loopwright_core::retrieval::{Passage, RetrievalError, Retriever};
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::{PiPattern, Rag};
/// # struct Animals;
/// # #[async_trait]
/// # impl Retriever for Animals {
/// #     async fn retrieve(&self, _: &str, _: usize) -> Result<Vec<Passage>, RetrievalError> {
/// #         Ok(vec![Passage::new("Sheep eat grass.").source("a.md")])
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // `Animals` is a `Retriever`.
/// let model = ScriptedModel::new([Script::text("Grass [a.md].")]);
/// let agent = GenericAgent::builder(model, Rag::new(Animals, PiPattern)).build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("What do sheep eat?").await?.text, "Grass [a.md].");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Rag<P> {
    search: Arc<dyn Tool>,
    then: P,
}

const CITE: &str = "Answer from the passages that `search` returns, and cite each that you use by \
    its name in brackets, as in [name]. If they do not contain the answer, say so.";

impl<P: BehaviorPattern> Rag<P> {
    /// Creates a pattern that searches with `retriever`, for at most five passages at a time, and
    /// answers with `then`.
    pub fn new(retriever: impl Retriever + 'static, then: P) -> Self {
        Self::with_tool(search_tool("search", retriever, 5), then)
    }

    /// Creates a pattern that searches with this tool, whose argument is `query`. Only passages
    /// that are an array of [`Passage`]s in the details of its results can be cited.
    pub fn with_tool(search: impl Tool + 'static, then: P) -> Self {
        Rag { search: Arc::new(search), then }
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Rag<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.then.tools().into_iter().chain([self.search.clone()]).collect()
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let (name, request) = (&self.search.spec().name, step.user_request().cloned());
        if let Some(request) = request.as_ref().filter(|_| step.state("rag") != Some(true)) {
            let call = Call::new(name.clone(), json!({ "query": request.text() })).key("rag");
            step.call(call).await?.ok_or(StepEnd::AwaitingAction)?;
            step.set_state("rag", true)?; // also if a steer skipped it
        }
        let cite = Profile::new().instruction(CITE);
        let end = self.then.next_step(&mut step.with_profile(cite)).await?;
        let history = step.history();
        // The last message is the answer, unless its citations follow it.
        let last = step.messages().next_back();
        let answer = step.last_reply().filter(|reply| reply.message() == last);
        let Some(answer) = answer.filter(|_| end == StepEnd::Done) else { return Ok(end) };
        let since = history.iter().rev().take_while(|message| Some(*message) != request.as_ref());
        let results = since.filter_map(|message| message.as_tool_result());
        let found = results.filter(|result| result.name == *name).flat_map(passages);
        let is_cited = |passage: &Passage| answer.text().contains(&format!("[{}]", passage.source));
        let mut cited: Vec<Passage> = Vec::new();
        for passage in found.filter(is_cited) {
            if !cited.iter().any(|other| other.source == passage.source) {
                cited.push(passage);
            }
        }
        step.remember(CustomMessage::new("citations", json!(cited))).await?;
        Ok(end)
    }
}

fn passages(result: &ToolResult) -> Vec<Passage> {
    let details = result.details.as_deref();
    details.and_then(|details| Vec::deserialize(details).ok()).unwrap_or_default()
}
