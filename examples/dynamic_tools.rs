//! Tools that come and go: a `ToolSource` is asked for its tools at the start of each run.
//!
//! `cargo run --example dynamic_tools`
//!
//! A source represents plug-ins or a tool server. Its tools get a prefix, so that they do not
//! collide with the agent's own.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel, TestTool};
use loopwright::tool::ToolSource;
use loopwright::{GenericAgent, Tool, ToolError, async_trait};
use serde_json::json;

#[derive(Clone, Default)]
struct Plugins(Arc<Mutex<Vec<&'static str>>>);

impl Plugins {
    fn install(&self, name: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    }
}

#[async_trait]
impl ToolSource for Plugins {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(names.into_iter().map(|name| Arc::new(TestTool::new(name)) as Arc<dyn Tool>).collect())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let plugins = Plugins::default();
    plugins.install("calendar");
    let model = ScriptedModel::new([
        Script::text("I have a calendar."),
        Script::calls([("m", "plugin_mail", json!({}))]),
        Script::text("The mail is sent."),
    ]);
    let agent = GenericAgent::builder(model.clone(), PiPattern)
        .tool(TestTool::new("clock"))
        .tool_source("plugin_", plugins.clone())
        .build()?;
    let handle = agent.session().await?;
    println!("{}", handle.prompt("What can you do?").await?.text);
    plugins.install("mail");
    println!("{}", handle.prompt("Send a mail.").await?.text);

    for request in &model.requests()[..2] {
        let names: Vec<&str> = request.tools.iter().map(|tool| &*tool.name).collect();
        println!("offered: {}", names.join(", "));
    }
    Ok(())
}
