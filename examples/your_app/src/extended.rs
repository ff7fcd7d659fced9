//! An app with its own command, slash commands, settings and system prompt.

use std::process::ExitCode;

use loopwright::patterns::PiPattern;
use loopwright::{AgentBuilder, GenericAgent};
use loopwright_cli::clap::{Arg, ArgMatches, Command};
use loopwright_cli::{AgentRejection, AgentSetup, App, CommandContext, CustomSetting, SlashReply};

fn support(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    let agent = GenericAgent::builder(setup.model()?, PiPattern);
    Ok(agent.system(setup.system().unwrap_or_default()))
}

fn system(setup: &AgentSetup) -> String {
    match setup.custom::<String>("region") {
        Ok(region) => format!("You help with invoices. The region is {region}."),
        Err(_) => "You help with invoices.".into(),
    }
}

/// Prints the month, the configured model, and the location of the data.
fn report(arguments: &ArgMatches, cx: &CommandContext) -> ExitCode {
    let month = arguments.get_one::<String>("month").map_or("all", String::as_str);
    match (cx.store(), cx.settings(), cx.data_directory()) {
        (Ok(_), Ok(settings), Some(data)) => {
            let model = settings.model.unwrap_or_default();
            println!("{month}: {model} in {}", data.display());
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}

fn main() -> ExitCode {
    App::new("acme-extended")
        .agent("support", support)
        .command(Command::new("report").about("Print what was paid").arg(Arg::new("month")), report)
        .setting(CustomSetting::choice("region", "The region to search", ["eu", "us"]))
        .setting(CustomSetting::number("max-amount", "The largest payment, in euros").default(100))
        .system(system)
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
