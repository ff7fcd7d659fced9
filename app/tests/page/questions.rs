//! Questions to the user: the form of each kind, with the mouse and with the keyboard alone.

use loopwright_core::session::QuestionStatus;
use loopwright_core::testing::ScriptedModel;
use loopwright_core::tool::Question;
use loopwright_core::{
    BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError, async_trait,
};
use loopwright_test_support::browser::Tab;
use serde_json::{Value, json};

use crate::access::CONTRAST;
use crate::fixture::Fixture;

/// Lets the model ask, and waits until the card has the focus.
fn asked(fixture: &Fixture, tab: &Tab, question: Value) {
    tab.say("Paint.");
    fixture.request().call(&[("ask_user", question)]);
    tab.until_text(".card h3", "The agent asks");
    tab.until_text("#status", "Waits for you");
    tab.until("document.activeElement.matches('.card h3')");
}

/// Returns the answer that the model received, and ends the run.
fn received(fixture: &Fixture, tab: &Tab) -> String {
    let reply = fixture.request();
    let result = serde_json::from_str(&reply.last()).unwrap();
    reply.say("I see.");
    tab.until("!document.querySelector('.card')");
    tab.until_text("#status", "Ready");
    result
}

fn colours(several: bool) -> Value {
    let options = ["red", "dark blue", "<b>"];
    json!({ "question": "Which\ncolour?", "options": options, "several": several })
}

/// C159: A choice has radio buttons, several options have checkboxes.
#[test]
fn options_are_chosen_with_the_mouse() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    asked(&fixture, &tab, colours(false));
    assert_eq!(tab.text(".card .question"), "Which\ncolour?");
    assert_eq!(tab.text(".card .options"), "red\ndark blue\n<b>");
    tab.click(".card .approve");
    tab.until_text(".card .problem", "Choose one of the options.");
    tab.screenshot("question");
    tab.click(".card label:nth-child(1)");
    tab.until("!document.querySelector('.card .problem').checkVisibility()");
    tab.click(".card label:nth-child(2)");
    tab.click(".card .approve");
    assert_eq!(received(&fixture, &tab), "dark blue");
    for reloaded in [false, true] {
        if reloaded {
            tab.reload();
        }
        tab.until_text(".call .note", "Answered.");
        tab.until_text(".call .out", "dark blue");
    }

    asked(&fixture, &tab, colours(true));
    for label in [1, 2, 3, 2] {
        tab.click(&format!(".card label:nth-child({label})"));
    }
    tab.click(".card .approve");
    assert_eq!(received(&fixture, &tab), "red, <b>");
    asked(&fixture, &tab, colours(true));
    tab.click(".card .approve");
    assert_eq!(received(&fixture, &tab), "None of them.");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}

/// C159: Each kind is answered with the keyboard alone.
#[test]
fn a_question_is_answered_with_the_keys() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    let focus = |selector: &str| {
        tab.press("Tab", false);
        tab.until(&format!("document.activeElement.matches('.card {selector}')"));
    };
    asked(&fixture, &tab, colours(false));
    tab.press("Enter", false); // it may have been on its way
    focus("label:nth-child(1) input[type=radio]");
    tab.press("ArrowDown", false);
    tab.until("document.activeElement.matches('.card label:nth-child(2) input:checked')");
    tab.press("Enter", false);
    assert_eq!(received(&fixture, &tab), "dark blue");

    asked(&fixture, &tab, colours(true));
    focus("label:nth-child(1) input[type=checkbox]");
    tab.press(" ", false);
    focus("label:nth-child(2) input");
    focus("label:nth-child(3) input");
    tab.press(" ", false);
    tab.press("Enter", false);
    assert_eq!(received(&fixture, &tab), "red, <b>");

    asked(&fixture, &tab, json!({ "question": "Which?" }));
    focus("textarea.answer");
    tab.press_control("Enter");
    tab.until_text(".card .problem", "Type an answer.");
    tab.type_text("a dark one,");
    tab.press("Enter", false);
    tab.type_text("or none");
    focus(".approve");
    tab.press("Enter", false);
    assert_eq!(received(&fixture, &tab), "a dark one,\nor none");

    asked(&fixture, &tab, json!({ "question": "Which?" }));
    for next in ["textarea.answer", ".approve", ".deny"] {
        focus(next);
    }
    tab.press("Enter", false);
    tab.until("document.activeElement.matches('.card .reason')");
    tab.type_text("any will do");
    tab.press("Enter", false);
    assert_eq!(received(&fixture, &tab), "Denied by the user: any will do");
    tab.until_text(".call .state", "denied");
}

/// C159: JSON that is invalid or does not fit is not accepted: the card says why.
#[test]
fn json_that_does_not_fit_is_refused() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    let schema = json!({ "type": "object", "properties": { "r": { "type": "integer" } } });
    asked(&fixture, &tab, json!({ "question": "Which?", "schema": schema }));
    tab.click(".card summary");
    tab.until_text(".card .args", "integer");
    for (text, problem) in [("{", "This is not JSON: "), ("{\"r\": \"x\"}", "/r")] {
        tab.click(".card textarea.json");
        tab.eval("document.activeElement.select()");
        tab.type_text(text);
        tab.press_control("Enter");
        tab.until_text(".card .problem", problem);
    }
    tab.screenshot("question-json");
    tab.until("!document.querySelector('.card .approve').disabled");
    tab.eval("document.querySelector('.card textarea').select()");
    tab.type_text("{\"r\": 7}");
    tab.click(".card .approve");
    assert_eq!(received(&fixture, &tab), "{\"r\":7}");
}

/// A pattern that asks for a password before it asks the model.
struct Login;

#[async_trait]
impl BehaviorPattern for Login {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        match step.question("password", Question::secret("The password?").shown()).await? {
            QuestionStatus::Waiting => Ok(StepEnd::AwaitingAction),
            _ => step.ask().await?.finish(),
        }
    }
}

/// C159: A secret is typed into a password field, and is nowhere on the page afterwards.
#[test]
fn a_secret_is_not_shown() {
    let agent = GenericAgent::builder(ScriptedModel::new([]), Login).build().unwrap();
    let fixture = Fixture::after(&agent, 1);
    let tab = fixture.before();
    tab.until_text(".card .question", "The password?");
    tab.click(".card input[type=password]");
    tab.press("Enter", false);
    tab.until_text(".card .problem", "Type an answer.");
    tab.type_text(" hunter2 ");
    tab.press("Enter", false);
    let reply = fixture.request();
    assert!(!reply.body.to_string().contains("hunter2"), "{}", reply.body);
    reply.say("I see.");
    tab.until_text(".assistant", "I see.");
    tab.until_text(".call .note", "Answered.");
    for reloaded in [false, true] {
        if reloaded {
            tab.reload();
            tab.until_text(".assistant", "I see.");
        }
        let page = tab.eval("document.documentElement.outerHTML");
        assert!(!page.to_string().contains("hunter2"), "{page}");
    }
    assert!(format!("{:?}", fixture.log()).contains(" hunter2 "), "it is sent as it was typed");
}

/// C159: The forms can be read on a phone, by a screen reader, and in both colour schemes.
#[test]
fn the_forms_are_accessible() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    let long = "an option of very many words, which do not fit into a line of a phone";
    let question = json!({ "question": "Which?", "options": ["a".repeat(200), long] });
    asked(&fixture, &tab, question);
    let named =
        "[...document.querySelectorAll('.card input, .card [role=radiogroup]')].map((one) =>
        one.labels?.[0]?.innerText
            ?? document.getElementById(one.getAttribute('aria-labelledby'))?.innerText)";
    assert_eq!(tab.eval(named), json!(["Which?", "a".repeat(200), long]));
    tab.click(".card .approve");
    tab.until("document.querySelector('.card [role=alert]').checkVisibility()");
    for scheme in ["light", "dark"] {
        tab.prefer(scheme);
        assert_eq!(tab.eval(CONTRAST)[2], json!([]), "{scheme}");
    }
    tab.size(360, 740);
    tab.screenshot("phone-question");
    let wide = "document.querySelector('#scroll').scrollWidth
        > document.querySelector('#scroll').clientWidth";
    assert_eq!(tab.eval(wide), false);
}

/// C193: A request that begins with `/plan` is planned first; the page asks whether to carry it
/// out.
#[test]
fn a_plan_is_accepted_on_the_page() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    tab.until_text("#hint", "/plan");
    tab.say("/plan Tidy up.");
    let planned = fixture.request();
    let offers = |body: &Value, tool: &str| body["tools"].to_string().contains(tool);
    assert!(offers(&planned.body, "read_file") && !offers(&planned.body, "write_file"));
    planned.say("1. Delete a.txt.");
    tab.until_text(".card .question", "Carry out this plan?");
    // A message instead of an answer changes the plan.
    tab.say("But keep b.txt.");
    let planned = fixture.request();
    assert!(!offers(&planned.body, "write_file"));
    planned.say("1. Delete a.txt, keep b.txt.");
    tab.until_text(".card .question", "Carry out this plan?");
    tab.click(".card label:nth-child(1)");
    tab.click(".card .approve");
    let carried_out = fixture.request();
    assert!(offers(&carried_out.body, "write_file"));
    tab.until_text("#status", "Working");
    tab.say("/plan More.");
    tab.until_text("#problem", "when the run is done");
    carried_out.say("Deleted.");
    tab.until_text(".assistant:last-child", "Deleted.");
    tab.until_text("#status", "Ready");
}
