//! `loopwright serve`: the agent over HTTP, until Ctrl-C or SIGTERM.

use std::io::ErrorKind;
use std::time::Duration;

use loopwright_server::{CodingAgents, EnvModels, Server, ServerBuilder};
use tokio::net::TcpListener;

use crate::agent::StartError;
use crate::args::ServeArgs;
use crate::interrupt::Interrupt;
use crate::run::ABORTED;
use crate::{log, models, print, store};

/// The environment variable with the token.
pub(crate) const TOKEN: &str = "LOOPWRIGHT_TOKEN";

/// Serves until it is told to stop, and gives the exit code.
pub(crate) async fn serve(args: &ServeArgs) -> Result<u8, StartError> {
    log::begin()?;
    let mut models = EnvModels::default().catalogue(models::catalogue(args.models.as_ref())?);
    if let Some(model) = &args.model {
        models = models.default_model(model, args.base_url.clone());
    }
    let mut agents = CodingAgents::builder(models).commands(args.commands.commands());
    agents = args.root.iter().fold(agents, |agents, root| agents.root(root));
    if args.no_agents_md.unwrap_or_default() {
        agents = agents.no_agents_md();
    }
    let agents = agents.build().map_err(|error| StartError(error.to_string()))?;
    let mut builder = Server::builder(agents).store(store::open(&args.at)?);
    builder = builder.grace(Duration::from_secs(args.grace.into()));
    builder = args.host.iter().fold(builder, |builder, name| builder.host(name));
    let told = || std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    if let Some(runs) = args.max_runs {
        builder = builder.max_runs(runs as usize, ServerBuilder::RUNS);
    }
    if let Some(connections) = args.max_connections {
        builder = builder.max_connections(connections as usize);
    }
    if let Some(token) = args.token.clone().or_else(told) {
        builder = builder.token(token);
    }
    let server = builder.build().map_err(|why| StartError(why.to_string()))?;
    let (mut interrupt, mut terminate) = (Interrupt::listen()?, Interrupt::terminate()?);
    let (ending, begun) = tokio::sync::oneshot::channel();
    let listener = TcpListener::bind(args.addr).await;
    let listener = listener
        .map_err(|why| StartError(format!("{} cannot be listened on: {why}.", args.addr)))?;
    let address = listener
        .local_addr()
        .map_err(|why| StartError(format!("The address cannot be told: {why}.")))?;
    let shutdown = async {
        print::tell(&format!("Serving at http://{address} now; Ctrl-C ends it."));
        tokio::select! {
            () = interrupt.pressed() => {}
            () = terminate.pressed() => {}
        }
        let again = Interrupt::listen(); // counts from here on
        print::tell(&format!(
            "Ending: what goes on has {} seconds. Ctrl-C once more ends it at once.",
            args.grace
        ));
        let _ = ending.send(again);
    };
    tokio::select! {
        served = loopwright_server::serve(listener, server, shutdown) => {
            served.map_err(|why| match why.kind() {
                ErrorKind::InvalidInput => StartError(format!("{why} Give one with --token or in {TOKEN}.")),
                _ => StartError(format!("The server cannot be begun: {why}.")),
            })?;
            Ok(0)
        }
        () = async {
            match begun.await {
                Ok(Ok(mut again)) => again.pressed().await,
                _ => std::future::pending().await,
            }
        } => Ok(ABORTED),
    }
}
