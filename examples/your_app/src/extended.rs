//! An app with slash commands and a system prompt of its own.

use std::process::ExitCode;

use loopwright::patterns::PiPattern;
use loopwright::{AgentBuilder, GenericAgent};
use loopwright_cli::{AgentRejection, AgentSetup, App, SlashReply};

fn support(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    let agent = GenericAgent::builder(setup.model()?, PiPattern);
    Ok(agent.system(setup.system().unwrap_or_default()))
}

fn main() -> ExitCode {
    App::new("acme-extended")
        .agent("support", support)
        .system("You help with invoices.")
        .slash_command("size", "count the messages of this conversation", async |_, cx| {
            let messages = cx.handle().state().await?.messages.len();
            Ok(SlashReply::Show(format!("{} has {messages} messages.", cx.session())))
        })
        .slash_command("overdue", "ask for invoices that are overdue", async |month: String, _| {
            if month.is_empty() {
                return Err("it needs a month".into());
            }
            Ok(SlashReply::Send(format!("List the invoices of {month} that are overdue.")))
        })
        .run()
}
