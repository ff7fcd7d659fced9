//! Isolation of principals: facts are never shown to another one.

use loopwright_core::testing::{Harness, ScriptedModel};
use loopwright_core::tool::Approval;
use loopwright_core::{GenericAgent, ToolContext};
use loopwright_patterns::PiPattern;

use super::*;

const SECRET: &str = "The secret cat of Ann is called Minka.";

/// Queries in the syntax of FTS5, and others that pass a faulty quotation.
const CRAFTED: [&str; 14] = [
    r#"" OR scope:s1 OR ""#,
    "scope : s1",
    "s1",
    "minka) OR (scope:s1",
    "\"minka\" OR text:minka",
    "NOT bob",
    "minka*",
    "^the",
    "NEAR(secret cat, 9)",
    "{scope text}: minka",
    "- {scope}: minka",
    "' OR 1=1 --",
    "minka\0\" OR scope:s1",
    "secret cat of Ann called Minka feline",
];

/// C185: no text of another user is found or hides a fact, however SQLite splits it.
#[tokio::test]
async fn texts_of_another_user_neither_enter_an_index_nor_fill_it() {
    let (_folder, memory) = open();
    memory.remember(&ann(), "The cat is called Minka.").await.unwrap();
    // SQLite splits at `ⓐ`, and the rest looks like a word of the first scopes.
    for number in 0..40 {
        for scope in 1..=3 {
            for between in ["\u{24d0}", "\u{24d0}\u{301}", "", " "] {
                let forged = format!("{number} a{between}\u{e000}{scope}\u{e000}cat");
                memory.remember(&bob(), &*forged).await.unwrap();
            }
        }
    }
    let found = memory.recall(&[ann()], "cat", 5).await.unwrap();
    let texts: Vec<&str> = found.iter().map(|fact| &*fact.text).collect();
    assert_eq!(texts, ["The cat is called Minka."]);
}

/// C185: another principal finds no fact, by words, by meaning, by ids or by crafted queries.
#[tokio::test]
async fn no_query_and_no_id_finds_the_fact_of_another_user() {
    let (_folder, memory) = open();
    let memory = memory.embedder(Meanings::new());
    let secret = memory.remember(&ann(), SECRET).await.unwrap();
    memory.remember(&bob(), "Bob has a dog.").await.unwrap();
    let others = [
        bob(),
        Scope::agent("ann"),
        Scope::project("ann"),
        Scope::user("Ann"),
        Scope::user("ann "),
        Scope::user("ann\0"),
        Scope::user("' OR ''='"),
        Scope::user("%"),
        Scope::user("1"),
    ];
    for scope in &others {
        let scopes = std::slice::from_ref(scope);
        for query in CRAFTED.iter().copied().chain([SECRET, "cat", "kitten"]) {
            let found = memory.recall(scopes, query, 100).await.unwrap();
            assert!(found.iter().all(|fact| fact.scope == *scope), "{scope}, {query}: {found:?}");
        }
        for id in 0..10 {
            assert!(!memory.forget(scope, id).await.unwrap() || *scope == bob() && id == 2);
        }
        assert!(!memory.export(scope).await.unwrap().contains("Minka"));
        assert!(memory.facts(scopes, 0, 100).await.unwrap().iter().all(|f| f.scope == *scope));
        memory.forget_all(scope).await.unwrap();
    }
    assert_eq!(memory.facts(&[ann()], 0, 9).await.unwrap(), [secret]);
    assert_eq!(memory.recall(&[ann()], "kitten", 9).await.unwrap().len(), 1);
}

/// C185: random queries find facts of the named scopes only.
#[tokio::test]
async fn random_queries_find_facts_of_the_named_scopes_only() {
    let (_folder, memory) = open();
    let users: Vec<Scope> = (0..5).map(|n| Scope::user(format!("u{n}"))).collect();
    for user in &users {
        for word in ["cat", "s1", "s2", "NEAR", "scope", "text", "OR"] {
            memory.remember(user, format!("{word} of {user}")).await.unwrap();
        }
    }
    let tokens = [
        "cat", "\"", "OR", "AND", "NOT", "(", ")", "scope", ":", "s1", "s2", "*", "^", "NEAR", ",",
        "user", "u1", "+", "{", "}", "-", "'", "\\", "\u{0}", "\u{e000}", "ſ", "İ",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut count = 0;
    for _ in 0..1000 {
        let length = random(8);
        let query: Vec<&str> = (0..length).map(|_| tokens[random(tokens.len())]).collect();
        let query = query.join(if random(2) == 0 { " " } else { "" });
        let scopes = [users[random(5)].clone(), users[random(5)].clone()];
        let found = memory.recall(&scopes, &query, 100).await.unwrap();
        assert!(found.iter().all(|fact| scopes.contains(&fact.scope)), "{query:?}: {found:?}");
        count += found.len();
    }
    assert!(count > 1000, "most queries find something");
}

/// C185: no arguments of the tools reach facts of another user. Without a principal, no facts are
/// found.
#[tokio::test]
async fn forged_arguments_of_tools_reach_nothing() {
    let (_folder, memory) = open();
    let secret = memory.remember(&ann(), SECRET).await.unwrap();
    let forged = [
        call("recall_facts", json!({"query": SECRET, "scope": {"kind": "user", "name": "ann"}})),
        call("recall_facts", json!({"query": "minka\" OR scope:s1", "user": "ann", "limit": 20})),
        call("recall_facts", json!({"query": "minka", "shared": true, "principal": "ann"})),
        call("forget_fact", json!({"id": secret.id, "scope": "user ann", "user": "ann"})),
        call("forget_fact", json!({"id": secret.id, "shared": true})),
    ];
    for user in ["bob", ""] {
        let replies = forged.iter().cloned().chain([Script::text("Done.")]);
        let tools = memory.tools().approve_forget(Approval::Never);
        let options = |agent: loopwright_core::AgentBuilder| agent.tools(tools);
        let harness = Harness::new(PiPattern, replies, options).await;
        harness.handle.prompt(by(user, "Who is Minka?")).await.unwrap();
        harness.check().await;
        let state = harness.handle.state().await.unwrap();
        let results: Vec<_> = state.messages.iter().filter_map(|m| m.as_tool_result()).collect();
        assert_eq!(results.len(), forged.len());
        assert!(results.iter().all(|result| !result.text().contains("Minka")), "{results:?}");
        assert!(results[3].is_error() && results[4].is_error(), "{results:?}");
    }
    for tool in memory.tools() {
        let arguments = json!({"fact": "A fact.", "query": "Minka", "id": secret.id});
        let result = tool.call(&arguments, ToolContext::detached()).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains("It is not known who the user is"), "{error}");
    }
    assert_eq!(memory.facts(&[ann()], 0, 9).await.unwrap(), [secret]);
}

/// C185: the hook adds only facts of the request's principal, and none without one.
#[tokio::test]
async fn the_hook_shows_nobody_the_facts_of_another_user() {
    let (_folder, memory) = open();
    memory.remember(&ann(), SECRET).await.unwrap();
    let replies = ["1", "2", "3", "4"].map(Script::text);
    let model = ScriptedModel::new(replies);
    let builder = GenericAgent::builder(model.clone(), PiPattern).hook(memory.hook());
    let agent = builder.build().unwrap();
    let handle = agent.session().await.unwrap();
    handle.prompt("Who is Minka?").await.unwrap();
    handle.prompt(by("bob", "Who is Minka?")).await.unwrap();
    handle.prompt(by("", "Who is Minka?")).await.unwrap();
    let shows_it = |at: usize| {
        let request = &model.requests()[at];
        request.messages.iter().any(|message| message.text().contains("secret cat"))
    };
    assert!((0..3).all(|at| !shows_it(at)));
    handle.prompt(by("ann", "Who is Minka?")).await.unwrap();
    assert!(shows_it(3));
}

/// C185: a call approved after a restart belongs to the principal of its request, who is in the
/// log.
#[tokio::test]
async fn a_call_after_a_restart_is_that_of_its_principal() {
    for (who, is_forgotten) in [("bob", false), ("ann", true)] {
        let (_folder, memory) = open();
        let stored = memory.remember(&ann(), SECRET).await.unwrap();
        let replies = [call("forget_fact", json!({"id": stored.id})), Script::text("Done.")];
        let options = |agent: loopwright_core::AgentBuilder| agent.tools(memory.tools());
        let harness = Harness::new(PiPattern, replies, options).await;
        harness.handle.prompt(by(who, "Forget Minka.")).await.unwrap();
        let harness = harness.restart().await;
        harness.resolve(0, loopwright_core::event::Decision::Approve).await.unwrap();
        harness.handle.wait_for_idle().await;
        harness.check().await;
        let facts = memory.facts(&[ann()], 0, 9).await.unwrap();
        assert_eq!(facts.is_empty(), is_forgotten, "{who}");
    }
}

/// C266: in a session of several principals, facts recalled for one of them are in no request of
/// another one: neither results of calls nor facts that the hook has added.
#[tokio::test]
async fn what_was_recalled_for_one_user_is_in_no_request_of_another() {
    let (_folder, memory) = open();
    memory.remember(&ann(), SECRET).await.unwrap();
    memory.remember(&Scope::project("ark"), "The ark is for every cat.").await.unwrap();
    let replies = [
        call("recall_facts", json!({ "query": "cat" })),
        Script::text("I know."),
        Script::text("No idea."),
        Script::text("None."),
        Script::text("Yes."),
    ];
    let tools = memory.tools().shared(Scope::project("ark"));
    let options = |agent: loopwright_core::AgentBuilder| agent.tools(tools).hook(memory.hook());
    let harness = Harness::new(PiPattern, replies, options).await;
    harness.handle.prompt(by("ann", "Do I have a cat?")).await.unwrap();
    harness.handle.prompt(by("bob", "Who has a cat?")).await.unwrap();
    harness.handle.prompt("Who has a cat?").await.unwrap();
    harness.handle.prompt(by("ann", "And now?")).await.unwrap();
    harness.check().await;
    let requests = harness.model.requests();
    let contains = |at: usize, text: &str| {
        let request: &loopwright_core::model::ChatRequest = &requests[at];
        request.messages.iter().any(|message| message.text().contains(text))
    };
    let shows: Vec<bool> = (0..5).map(|at| contains(at, "secret cat")).collect();
    assert_eq!(shows, [true, true, false, false, true]);
    let hides: Vec<bool> = (0..5).map(|at| contains(at, "facts about another user")).collect();
    assert_eq!(hides, [false, false, true, true, false]);
    let state = harness.handle.state().await.unwrap();
    let result = state.messages.iter().find_map(|m| m.as_tool_result()).unwrap();
    assert!(result.text().contains("secret cat"), "the log has what was recalled");
    let details = result.details.as_ref().unwrap().to_string();
    assert!(!details.contains("ann"), "{details}");
}

/// C266: facts for everyone stay.
#[tokio::test]
async fn recalled_facts_for_everyone_stay() {
    let (_folder, memory) = open();
    memory.remember(&Scope::project("ark"), "The ark is for every cat.").await.unwrap();
    let replies = [
        call("recall_facts", json!({ "query": "cat" })),
        Script::text("Every cat."),
        Script::text("Every cat."),
    ];
    let tools = memory.tools().shared(Scope::project("ark"));
    let options = |agent: loopwright_core::AgentBuilder| agent.tools(tools).hook(memory.hook());
    let harness = Harness::new(PiPattern, replies, options).await;
    harness.handle.prompt(by("ann", "Whom is it for?")).await.unwrap();
    harness.handle.prompt(by("bob", "Whom is it for?")).await.unwrap();
    let request = harness.model.requests().pop().unwrap();
    assert!(request.messages.iter().any(|message| message.text().contains("for every cat")));
}
