//! The model writes a script that calls the agent's tools, with an approval in its middle.
//!
//! `cargo run -p loopwright-code --example code_mode`

use std::process::ExitCode;

use loopwright_code::{CodeMode, Interpreter};
use loopwright_core::event::Decision;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::Effect;
use loopwright_core::{GenericAgent, ToolError, tool_fn};
use serde_json::json;

// This program is the interpreter of its own scripts. `loopwright-script` needs no such lines.
#[global_allocator]
static ALLOCATOR: loopwright_code::LimitedAllocator = loopwright_code::LimitedAllocator;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Invoice {
    /// The number of the invoice.
    number: u64,
}

const SCRIPT: &str = r#"
import asyncio, json
invoices = [json.loads(text) for text in
            await asyncio.gather(*[get_invoice(number=n) for n in range(1, 21)])]
due = [invoice for invoice in invoices if invoice["days"] > 30]
for invoice in due:
    print(await remind(number=invoice["number"]))
f"{len(due)} of {len(invoices)} invoices are due"
"#;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("script") {
        return loopwright_code::serve();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let program = std::env::current_exe().map(|this| Interpreter::program(this).arg("script"));
    let ran = runtime.and_then(|runtime| Ok(runtime.block_on(run(program?))));
    match ran.map_err(Into::into).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) async fn run(interpreter: Interpreter) -> Result<(), Box<dyn std::error::Error>> {
    let get_invoice =
        tool_fn("get_invoice", "Returns an invoice as JSON.", async |invoice: Invoice, _cx| {
            let Invoice { number } = invoice;
            Ok::<_, ToolError>(json!({ "number": number, "days": number * 7 % 32 }))
        });
    let remind = tool_fn("remind", "Reminds a customer.", async |invoice: Invoice, _cx| {
        Ok::<_, ToolError>(format!("reminded the customer of invoice {}", invoice.number))
    });
    let model = ScriptedModel::new([
        Script::calls([("s", "run_script", json!({ "code": SCRIPT }))]),
        Script::text("One customer was reminded."),
    ]);
    let agent = GenericAgent::builder(model.clone(), CodeMode::new(interpreter))
        .tool(get_invoice.effect(Effect::ReadOnly))
        .tool(remind)
        .build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("Remind everybody whose invoice is due.").await?;
    println!("{:?}", outcome.end);
    for action in handle.pending().await? {
        println!("{} {}", action.name, action.arguments);
        handle.resolve(&action, Decision::Approve).await?;
    }
    handle.wait_for_idle().await;
    let requests = model.requests();
    println!("{} requests. The model saw:", requests.len());
    println!("{}", requests[1].messages.last().map(|m| m.text()).unwrap_or_default());
    Ok(())
}
