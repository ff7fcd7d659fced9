//! An agent in a desktop app (egui, Tauri, winit): the window's loop stays free of async.
//!
//! `cargo run --example desktop`
//!
//! The agent lives on a tokio runtime in its own thread. Two channels join them: clicks go to the
//! agent, its events come back. Here a frame is drawn as text. In egui the thread would call
//! `Context::request_repaint` after each event, and `update` would drain the channel.

use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use loopwright::event::{ActionResult, Decision, Envelope, ExternalAction, InputEvent, RunStatus};
use loopwright::model::Update;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel, TestTool};
use loopwright::tool::Effect;
use loopwright::{AgentEvent, GenericAgent};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

type Failure = Box<dyn Error + Send + Sync>;

/// Runs in the agent's thread until the window is closed.
async fn serve_window(
    mut clicks: UnboundedReceiver<InputEvent>,
    window: Sender<Arc<Envelope>>,
) -> Result<(), Failure> {
    let call = Script::calls([("d", "delete", serde_json::json!({"path": "old.txt"}))]);
    let model = ScriptedModel::new([call, Script::text("The file is deleted.")]);
    let delete = TestTool::new("delete").effect(Effect::AtMostOnce);
    let agent = GenericAgent::builder(model, PiPattern).tool(delete).build()?;
    let handle = agent.session().await?;
    let mut events = handle.subscribe();
    loop {
        tokio::select! {
            click = clicks.recv() => match click {
                Some(input) => drop(handle.send(input).await?),
                None => return Ok(()), // the window is closed
            },
            event = events.next() => match event {
                Some(event) => window.send(event)?,
                None => return Ok(()),
            },
        }
    }
}

/// The state of the window.
#[derive(Default)]
struct Chat {
    lines: Vec<String>,
    /// The streaming reply.
    draft: String,
    /// The action that the buttons decide.
    waiting: Option<Arc<ExternalAction>>,
    is_done: bool,
}

impl Chat {
    fn handle(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                self.draft += delta
            }
            AgentEvent::MessageEnd { message } => {
                self.draft.clear();
                let text = message.text();
                if !text.is_empty() {
                    self.lines.push(format!("{:?}: {text}", message.role()));
                }
            }
            AgentEvent::ExternalAction(action) => self.waiting = Some(action.clone()),
            AgentEvent::ExternalActionEnd { .. } => self.waiting = None,
            AgentEvent::AgentEnd(outcome) => self.is_done = outcome.end == RunStatus::Done,
            _ => {}
        }
    }

    fn draw(&self) {
        println!("+--------------------------------");
        let draft = Some(&self.draft).filter(|draft| !draft.is_empty());
        self.lines.iter().chain(draft).for_each(|line| println!("| {line}"));
        if let Some(action) = &self.waiting {
            println!("| {} {} [Allow] [Deny]", action.name, action.arguments);
        }
    }
}

fn main() -> Result<(), Failure> {
    let (click, clicks) = unbounded_channel();
    let (window, events): (_, Receiver<Arc<Envelope>>) = channel();
    let agent = thread::spawn(move || -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(serve_window(clicks, window))
    });

    let mut chat = Chat::default();
    click.send(InputEvent::UserRequest("Delete old.txt, please.".into()))?;
    while !chat.is_done {
        let event = events.recv()?; // a real window waits for input, too
        chat.handle(&event.event);
        events.try_iter().for_each(|event| chat.handle(&event.event));
        chat.draw();
        if let Some(action) = chat.waiting.take() {
            println!("the user clicks on [Allow]");
            let (call, digest) = (action.call.clone(), action.digest.clone());
            let result = ActionResult::new(call, digest, Decision::Approve);
            click.send(InputEvent::ExternalActionResult(result))?;
        }
    }
    drop(click); // closes the window
    agent.join().map_err(|_| "the agent's thread has panicked")?
}
