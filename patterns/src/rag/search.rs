//! [`search_tool`]: a retriever as a tool.

use std::sync::Arc;

use loopwright_core::retrieval::{Passage, Retriever};
use loopwright_core::tool::{Effect, ToolOutput};
use loopwright_core::{Tool, ToolContext, ToolError, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// The text to search for.
    query: String,
}

/// Returns a tool of this name that searches with a retriever. It returns at most `limit` passages,
/// each after its name in brackets. The details of the result are the [`Passage`]s.
///
/// The name of a passage is its source, or else its number in the result. The tool only reads, so
/// it runs without approval by default.
///
/// ```
/// # use async_trait::async_trait;
/// # use loopwright_core::retrieval::{Passage, RetrievalError, Retriever};
/// use loopwright_core::GenericAgent;
/// use loopwright_core::testing::ScriptedModel;
/// use loopwright_patterns::{PiPattern, search_tool};
/// # struct Handbook;
/// # #[async_trait]
/// # impl Retriever for Handbook {
/// #     async fn retrieve(&self, _: &str, _: usize) -> Result<Vec<Passage>, RetrievalError> {
/// #         Ok(Vec::new())
/// #     }
/// # }
///
/// // `Handbook` is a `Retriever`.
/// let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern)
///     .tool(search_tool("search_handbook", Handbook, 5))
///     .build()?;
/// # Ok::<(), loopwright_core::agent::AgentError>(())
/// ```
pub fn search_tool(name: &str, retriever: impl Retriever + 'static, limit: usize) -> impl Tool {
    let search = async |state: (Arc<dyn Retriever>, usize), search: Search, _cx: ToolContext| {
        let (retriever, limit) = state;
        let found = retriever.retrieve(&search.query, limit).await.map_err(ToolError::failed)?;
        let named = found.into_iter().zip(1..).map(|(passage, n)| {
            if passage.source.is_empty() { passage.source(n.to_string()) } else { passage }
        });
        let found: Vec<Passage> = named.collect();
        let texts = found.iter().map(|passage| format!("[{}]\n{}", passage.source, passage.text));
        let texts: Vec<String> = texts.collect();
        let text =
            if texts.is_empty() { "No passage was found.".into() } else { texts.join("\n\n") };
        Ok::<_, ToolError>(ToolOutput::text(text).details(json!(found)))
    };
    let about = "Searches for passages that fit a query, and returns them after their names.";
    let retriever: Arc<dyn Retriever> = Arc::new(retriever);
    tool_with((retriever, limit), name, about, search).effect(Effect::ReadOnly)
}
