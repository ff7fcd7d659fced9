//! The patterns of the library, one example each, and one for the branches of a graph.
//!
//! `cargo run --example patterns` runs all of them, `cargo run --example patterns -- rag` runs one.
//! Each file is complete: to try a pattern in your own program, copy its `run` into `main`. The
//! models are scripted, so no key is needed and the replies are always the same.

mod bounded;
mod branches;
mod clarify;
mod ensemble;
mod extract;
mod first_call;
mod generic;
mod goal;
mod graph;
mod handoff;
mod orchestrate;
mod pi;
mod plan_execute;
mod plan_first;
mod rag;
mod react;
mod reflect;
mod route;
mod self_consistency;

use std::error::Error;
use std::process::ExitCode;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

type Example = (&'static str, fn() -> LocalBoxFuture<'static, Result<(), Box<dyn Error>>>);

const EXAMPLES: [Example; 19] = [
    ("generic", || generic::run().boxed_local()),
    ("pi", || pi::run().boxed_local()),
    ("first_call", || first_call::run().boxed_local()),
    ("react", || react::run().boxed_local()),
    ("plan_execute", || plan_execute::run().boxed_local()),
    ("plan_first", || plan_first::run().boxed_local()),
    ("rag", || rag::run().boxed_local()),
    ("reflect", || reflect::run().boxed_local()),
    ("self_consistency", || self_consistency::run().boxed_local()),
    ("ensemble", || ensemble::run().boxed_local()),
    ("route", || route::run().boxed_local()),
    ("handoff", || handoff::run().boxed_local()),
    ("orchestrate", || orchestrate::run().boxed_local()),
    ("graph", || graph::run().boxed_local()),
    ("branches", || branches::run().boxed_local()),
    ("clarify", || clarify::run().boxed_local()),
    ("goal", || goal::run().boxed_local()),
    ("bounded", || bounded::run().boxed_local()),
    ("extract", || extract::run().boxed_local()),
];

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let names = EXAMPLES.map(|(name, _)| name);
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        eprintln!("there is no example `{unknown}`; the examples are: {}", names.join(", "));
        return Ok(ExitCode::from(2));
    }
    for (name, run) in EXAMPLES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            println!("== {name}");
            run().await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
