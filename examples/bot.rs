//! A chat bot, as for Discord or Slack, over a mock gateway: one session per channel.
//!
//! `cargo run --example bot`
//!
//! During a run, further messages of the user who started it are steers. Messages of others are
//! follow-ups, which wait for its end.

use std::collections::HashMap;
use std::error::Error;

use loopwright::event::{InputEvent, Role};
use loopwright::log::InMemoryStore;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright::{AgentEvent, AgentHandle, EventStream, GenericAgent, RunContext};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

type Failure = Box<dyn Error + Send + Sync>;

/// A message of a user: channel, author, text.
type Incoming = (&'static str, &'static str, &'static str);

/// An action of the bot in a channel.
enum Outgoing {
    Typing(String),
    React(&'static str, &'static str),
    Post(String, String),
}

/// Posts the bot's replies and activity from the events of a session.
async fn post_replies(mut events: EventStream, gateway: UnboundedSender<Outgoing>) {
    while let Some(event) = events.next().await {
        let channel = event.session_id.to_string();
        let sent = match &event.event {
            AgentEvent::ToolExecutionStart { .. } => gateway.send(Outgoing::Typing(channel)),
            AgentEvent::MessageEnd { message }
                if message.role() == Role::Assistant && !message.text().is_empty() =>
            {
                gateway.send(Outgoing::Post(channel, message.text()))
            }
            _ => Ok(()),
        };
        if sent.is_err() {
            return; // the gateway is closed
        }
    }
}

/// Runs the bot until the gateway is closed.
async fn run_bot(
    agent: GenericAgent,
    mut messages: UnboundedReceiver<Incoming>,
    gateway: UnboundedSender<Outgoing>,
) -> Result<(), Failure> {
    let store = InMemoryStore::new(); // `Sqlite`, to remember the channels after a restart
    let mut channels: HashMap<&str, (AgentHandle, &str)> = HashMap::new();
    while let Some((channel, author, text)) = messages.recv().await {
        if !channels.contains_key(channel) {
            let cx = RunContext::new().stored(&store, channel).await?;
            let (handle, events) = agent.run(cx).await?;
            tokio::spawn(post_replies(events, gateway.clone()));
            channels.insert(channel, (handle, author));
        }
        let Some((handle, speaker)) = channels.get_mut(channel) else { continue };
        let message = format!("{author}: {text}");
        if !handle.state().await?.is_running {
            *speaker = author;
            handle.send(InputEvent::UserRequest(message.into())).await?;
            continue;
        }
        let emoji = if *speaker == author {
            handle.steer(message).await?;
            "👀"
        } else {
            handle.follow_up(message).await?;
            "⏳"
        };
        gateway.send(Outgoing::React(channel, emoji))?;
    }
    Ok(())
}

/// Plays the platform: writes messages, and shows the actions of the bot.
async fn platform(
    users: UnboundedSender<Incoming>,
    mut bot: UnboundedReceiver<Outgoing>,
    build: Gate,
) -> Result<(), Failure> {
    users.send(("#dev", "ann", "build it"))?;
    let (mut reactions, mut posts) = (0, 0);
    while posts < 3 {
        match bot.recv().await.ok_or("the bot has ended")? {
            Outgoing::Typing(channel) => {
                println!("{channel} the bot is typing …");
                users.send(("#dev", "ann", "for ARM"))?;
                users.send(("#dev", "bob", "what's for lunch?"))?;
            }
            Outgoing::React(channel, emoji) => {
                println!("{channel} {emoji}");
                reactions += 1;
                if reactions == 2 {
                    build.open();
                }
            }
            Outgoing::Post(channel, text) => {
                println!("{channel} bot: {text}");
                posts += 1;
                if posts == 2 {
                    users.send(("#random", "bob", "hello"))?; // a session of its own
                }
            }
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let build = Gate::new(); // the tool returns when it is open
    let model = ScriptedModel::new([Script::calls([("b", "build", json!({}))])]);
    let model = model.reply_with(|request| {
        let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
        let count = request.messages.len();
        Script::text(&format!("I answer “{last}” ({count} messages so far)"))
    });
    let tool = TestTool::new("build").waits(&build);
    let agent = GenericAgent::builder(model, PiPattern).tool(tool).build()?;
    let (users, messages) = unbounded_channel();
    let (gateway, outgoing) = unbounded_channel();
    let bot = tokio::spawn(run_bot(agent, messages, gateway));
    platform(users, outgoing, build).await?;
    bot.await?
}
