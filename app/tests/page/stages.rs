//! The stages of a pattern's work on the page, and the notices of runs that wait or have ended.

use loopwright_core::event::Decision;
use loopwright_core::log::{InMemory, LogEntry};
use loopwright_core::message::UserMessage;
use loopwright_core::session::Call;
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{Approval, Effect};
use loopwright_core::{AgentEvent, Ask, GenericAgent, RunContext};
use loopwright_patterns::{Branches, Graph, Next, PiPattern};
use loopwright_test_support::browser::Tab;
use serde_json::json;

use crate::access::CONTRAST;
use crate::fixture::Fixture;

/// Returns an agent that plans, and makes three calls at once: one ends at once, one runs forever
/// once it is approved, and one waits for its approval.
fn traveller() -> GenericAgent {
    let plan = Branches::new(|_, (): &()| {
        vec![Ask::detached().messages([UserMessage::from("Plan the journey.").into()])]
    });
    let call = |tool| Call::new(tool, json!({ "to": "Lisbon" }));
    let book = Branches::new(move |_, (): &()| ["look_up", "hotel", "flight"].map(call).into());
    let graph = Graph::<()>::new("plan")
        .branches("plan", plan, |(), _| Ok(None))
        .leads_to("plan", [Next::To("book")])
        .branches("book", book, |(), _| Ok(None))
        .leads_to("book", [Next::To("answer")])
        .pattern("answer", PiPattern);
    let asks = |tool: &str| TestTool::new(tool).spec(|spec| spec.approval(Approval::Always));
    let model = ScriptedModel::new([Script::text("By train.")]);
    GenericAgent::builder(model.discard_requests(), graph)
        .tool(TestTool::new("look_up").effect(Effect::ReadOnly))
        .tool(asks("hotel").hangs())
        .tool(asks("flight"))
        .build()
        .unwrap()
}

/// Returns the log of the agent while the hotel is being booked.
async fn log() -> Vec<LogEntry> {
    let memory = InMemory::new();
    let settings = RunContext::new().settings(json!({ "agent": "coding" }));
    let (handle, mut events) = traveller().run(settings.memory(memory.clone())).await.unwrap();
    handle.prompt("Book a journey to Lisbon.").await.unwrap();
    let pending = handle.pending().await.unwrap();
    let hotel = pending.iter().find(|action| *action.name == *"hotel").unwrap();
    handle.resolve(hotel, Decision::Approve).await.unwrap();
    loop {
        match &events.next().await.unwrap().event {
            AgentEvent::ToolExecutionStart { name, .. } if **name == *"hotel" => break,
            _ => {}
        }
    }
    memory.entries()
}

/// A script that draws a debate and the ends of its runs, with stages and a todo list.
const NOTICES: &str = "(async () => {
    const { Conversation } = await import('./view.js');
    const { showWork } = await import('./work.js');
    document.querySelector('#empty').hidden = true;
    const on = { changed() {}, replied() {}, ended() {}, continue() {} };
    const page = new Conversation(document.querySelector('#log'), on);
    const text = (text) => [{ type: 'text', text }];
    const ends = (message) => page.apply({ type: 'message_end', message });
    const says = (id, speaker, words) =>
        ends({ id, role: 'detached', speaker, parts: text(words), stop: 'stop' });
    ends({ id: 1, role: 'user', content: text('Should we move?') });
    says(2, 'pro', 'Yes: the rent is **lower**, and the garden is larger.');
    says(3, 'contra', 'No. Two reasons:\\n\\n1. The way to school.\\n2. The noise.');
    says(4, 'a judge with a long name, who listens to both of them', 'Pro has won.');
    ends({ id: 5, role: 'assistant', parts: text('You should move.'), stop: 'stop' });
    const goal = (reached, rounds) =>
        page.apply({ type: 'custom', kind: 'goal', data: { goal: 'goal', reached, rounds } });
    goal(true, 1);
    goal(false, 10);
    page.apply({ type: 'agent_end', end: 'sleeping', wakes_at: 1_900_000_000_000 });
    page.apply({ type: 'agent_end', end: 'sleeping' });
    page.apply({ type: 'agent_end', end: 'done', limit: 'turns' });
    const todos = [
        { content: 'Read the lease', status: 'completed' },
        { content: 'Compare the costs of both flats over five years', status: 'in_progress' },
        { content: 'Decide', status: 'pending' },
    ];
    const since = Date.now() - 200_000;
    const branches = { of: 12, done: 4, failed: 1, running: 4, waiting: 2 };
    const stages = [
        { name: 'plan', since, until: since + 2_100, visits: 3 },
        { name: 'ask everybody', since: since + 2_100, branches },
    ];
    window.draw = () => showWork({ stages, running: true, todos }, 'working');
})()";

/// Takes pictures in both colours and sizes, and checks contrast and width.
fn pictures(tab: &Tab, name: &str) {
    for scheme in ["light", "dark"] {
        tab.prefer(scheme);
        for (size, width) in [("wide", 1280), ("narrow", 400)] {
            tab.size(width, 800);
            tab.eval("window.draw?.()"); // the page, which has no session, draws none
            tab.screenshot(&format!("{name}-{scheme}-{size}"));
            assert_eq!(tab.eval(CONTRAST)[2], json!([]), "{scheme}, {width}");
            let wide =
                "document.documentElement.scrollWidth > document.documentElement.clientWidth";
            assert_eq!(tab.eval(wide), false, "{name}");
        }
    }
}

/// C544: The page lists the stages with their branches: while branches work and wait, after a
/// reload, and after a crash. Events change the list.
#[test]
fn the_page_shows_where_a_graph_is() {
    let start = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let log = start.block_on(log());
    let fixture = Fixture::after(&traveller(), 1);
    let tab = fixture.before();
    tab.until_text("#stages summary", "At book since ");
    tab.until_text("#stages", "3 branches: 1 done, 2 wait for you");
    assert_eq!(tab.count("#stages li[data-status=completed]"), 1);
    fixture.kill();
    fixture.rewrite(log);
    let other = fixture.hold();
    fixture.restart();
    for _ in 0..2 {
        tab.reload();
        tab.until_text("#stages", "3 branches: 1 done, 1 running, 1 waits for you");
        tab.until_text("#status", "Waits for you");
    }
    pictures(&tab, "stages");
    drop(other);
    tab.reload();
    tab.until_text("#stages summary", " · interrupted");
    tab.until_text("#stages", "3 branches: 1 done, 1 waits for you");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// The notices of a run that sleeps, waits or has ended, and speakers. A person checks the
/// pictures.
#[test]
fn notices_and_speakers_are_readable() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.eval(NOTICES);
    tab.until_text("#log", "The goal is reached after 1 round.");
    tab.until_text("#log", "Waits for an event.");
    let expected = "12 branches: 4 done, 1 failed, 4 running, 2 wait for you";
    let is_drawn = "draw(), document.querySelector('#stages').innerText";
    tab.until(&format!("({is_drawn}).includes('{expected}')"));
    assert_eq!(tab.count(".speaker"), 3);
    pictures(&tab, "notices");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}
