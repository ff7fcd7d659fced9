//! The official clients of the OpenAI API, from npm and PyPI.

use std::time::Duration;

use loopwright_core::error::{ModelError, ModelErrorKind};
use loopwright_core::log::InMemoryStore;
use loopwright_core::message::{Content, MessageKind, Usage};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::Effect;
use loopwright_core::{AgentBuilder, ChatModel, GenericAgent, ToolError, tool_fn};
use loopwright_host::{
    AgentRejection, AgentSetup, LlmConfig, Models, OperatorRules, SessionSettings,
};
use loopwright_patterns::PiPattern;
use loopwright_server::Server;
use serde_json::json;

use crate::run::{run, serve};

const TOKEN: &str = "sk-a-token-of-the-server";

struct Scripted(ScriptedModel);

impl Models for Scripted {
    fn named(&self, _: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError> {
        Ok(Box::new(self.0.clone()))
    }

    fn configured(
        &self,
        _: &LlmConfig,
        _: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection> {
        Err(AgentRejection::internal("The client describes no model."))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    of: String,
}

fn shepherd(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    let count = tool_fn("count", "Counts animals.", async |count: Count, _| {
        Ok::<_, ToolError>(format!("nine {}", count.of))
    });
    let sell = tool_fn("sell", "Sells animals.", async |count: Count, _| {
        Ok::<_, ToolError>(format!("sold the {}", count.of))
    });
    Ok(GenericAgent::builder(setup.model()?, PiPattern)
        .system("You are a shepherd.")
        .tool(count.effect(Effect::ReadOnly))
        .tool(sell))
}

/// Returns the replies of the model, in the order of both scripts' requests.
fn replies() -> Vec<Script> {
    let call = |tool: &str| {
        Script::new().think("Hm.", None).say("I look.").call("c", tool, r#"{"of": "sheep"}"#)
    };
    let usage = Usage::new(10, 5).cache(2, 0).reasoning(1);
    let flock = || Script::new().stream(["{\"count\"", ": 9}"], Duration::ZERO);
    vec![
        Script::text("Nine.").usage(usage),
        call("count"),
        Script::new().stream(["Nine ", "sheep."], Duration::ZERO),
        flock(),
        Script::text("A picture."),
        call("sell"),
        Script::text("Not sold."),
        call("count"),
        Script::text("Nine sheep.").usage(usage),
        call("count"),
        Script::new().stream(["Nine ", "sheep."], Duration::ZERO),
        flock(),
        Script::text("As I said."),
        Script::error(ModelErrorKind::InvalidRequest, "The model refuses."),
        Script::error(ModelErrorKind::InvalidRequest, "The model refuses."),
    ]
}

async fn drive(script: &str) {
    let model = ScriptedModel::new(replies());
    let mut defaults = SessionSettings::new();
    defaults.model = Some("test/scripted".into());
    let server = Server::builder(InMemoryStore::new())
        .models(Scripted(model.clone()))
        .agent("shepherd", shepherd)
        .defaults(defaults)
        .token(TOKEN);
    let address = serve(server.build().unwrap()).await;
    run(script, &[&address, TOKEN]).await;

    let requests = model.requests();
    assert_eq!(requests.len(), replies().len(), "no run was repeated");
    let first = &requests[0];
    assert_eq!((first.max_tokens, first.temperature), (Some(99), Some(0.5)));
    assert_eq!(&*first.system, "You are a shepherd.\n\nBe brief.");
    let output = requests[3].output.as_ref().unwrap();
    assert_eq!(output.schema["properties"]["count"]["type"], json!("integer"));
    let picture = &requests[4].messages;
    assert_eq!((picture[0].text(), picture[1].text()), ("Hello".into(), "Hi.".into()));
    let MessageKind::User(last) = &picture[2].body else { panic!("the last is the user's") };
    assert!(
        matches!(&last.content[1], Content::Image { media_type, .. } if media_type == "image/gif")
    );
    let history: Vec<String> = requests[12].messages.iter().map(|message| message.text()).collect();
    assert_eq!(history, ["How many?", "I look.", "nine sheep", "Nine sheep.", "Sure?"]);
}

/// C372: the client of npm.
#[tokio::test]
async fn the_client_of_npm_drives_an_agent() {
    drive("openai.mjs").await;
}

/// C372: the client of PyPI.
#[tokio::test]
async fn the_client_of_pypi_drives_an_agent() {
    drive("openai_client.py").await;
}
