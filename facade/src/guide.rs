//! The guide in `docs/guide/`: `cargo test` compiles and runs the code of its pages.
//!
//! `tests/spec/guide.rs` checks that every page is here.

/// Declares an item for each page, so that its code blocks are tests.
macro_rules! pages {
    ($($page:ident = $file:literal,)+) => {
        $(
            #[doc = include_str!(concat!("../../docs/guide/src/", $file))]
            pub struct $page;
        )+
    };
}

pages! {
    Introduction = "introduction.md",
    FirstAgent = "first-agent.md",
    Tools = "tools.md",
    Confirmation = "confirmation.md",
    Steering = "steering.md",
    Hooks = "hooks.md",
    Patterns = "patterns.md",
    Prompts = "prompts.md",
    PatternState = "pattern-state.md",
    Sleeping = "sleeping.md",
    Stores = "stores.md",
    LongTermMemory = "long-term-memory.md",
    SubAgents = "sub-agents.md",
    Models = "models.md",
    Testing = "testing.md",
    Mcp = "mcp.md",
    FrontEnds = "front-ends.md",
    Protocols = "protocols.md",
    Editors = "editors.md",
    Apps = "apps.md",
    Deploying = "deploying.md",
    Fleet = "fleet.md",
    McpServer = "mcp-server.md",
    Observability = "observability.md",
    Security = "security.md",
    FromLangGraph = "from-langgraph.md",
    FromOpenAiAgents = "from-openai-agents.md",
    FromAnotherCrate = "from-rig.md",
    FromPi = "from-pi.md",
    Cli = "cli.md",
    Config = "config.md",
    Settings = "settings.md",
    Server = "server.md",
    Sandbox = "sandbox.md",
    PatternLibrary = "pattern-library.md",
}

#[cfg(feature = "code")]
pages! {
    CodeMode = "code-mode.md",
}
