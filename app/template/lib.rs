//! The agent of `starter`: its loop, its tools and its instructions.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use loopwright::{
    AgentBuilder, BehaviorPattern, ChatModel, GenericAgent, StepContext, StepEnd, StepError, Tools,
    async_trait, tool, tools,
};

/// Builds the agent, which writes its notes to a file. Tests pass a scripted model, and `main.rs`
/// passes the user's choice.
pub fn assistant(model: impl ChatModel + 'static, notes: impl Into<PathBuf>) -> AgentBuilder {
    let notes = Arc::new(Notes { file: notes.into() });
    GenericAgent::builder(model, AssistantLoop)
        .system("You answer briefly. Use the tools where they help.")
        .tool(fahrenheit())
        .tools(notes.tools())
}

/// Converts a temperature from degrees Celsius to degrees Fahrenheit.
// It only computes, so it runs without approval.
#[tool(read_only)]
fn fahrenheit(celsius: f64) -> String {
    format!("{celsius} °C is {:.1} °F", celsius * 1.8 + 32.0)
}

/// The user's notes, in a file. A tool with state is a method.
struct Notes {
    file: PathBuf,
}

#[tools]
impl Notes {
    /// Appends a note to the user's notes.
    // It changes something, so each call waits until the user approves it.
    #[tool(at_most_once)]
    fn save_note(
        &self,
        /// The text of the note: one line.
        text: &str,
    ) -> std::io::Result<String> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
        writeln!(file, "{text}")?;
        Ok(format!("Saved: {text}"))
    }
}

/// The loop: asks the model, runs the tools that it calls, and delivers the user's messages between
/// turns. Change it, or use a pattern of `loopwright::patterns` instead.
pub struct AssistantLoop;

#[async_trait]
impl BehaviorPattern for AssistantLoop {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            loop {
                step.take_steering().await?;
                let reply = step.ask().await?.or_end()?;
                let batch = step.call_tools(&reply).await?.or_end()?;
                if !batch.wants_reply() && !step.has_steering() {
                    break;
                }
            }
            if !step.take_follow_ups().await? {
                return Ok(StepEnd::Done);
            }
        }
    }
}
