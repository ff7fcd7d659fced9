//! A real Chromium, controlled over its debugging pipe: JSON messages that end with a zero byte,
//! without a WebSocket.
//!
//! Nothing here sleeps or polls: conditions are checked whenever the page has changed.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{TEST_TIMEOUT, target};

/// A running browser without a window. It ends when the last of its tabs is dropped.
pub struct Browser {
    child: Child,
    to: RefCell<ChildStdin>,
    from: Receiver<Value>,
    last: Cell<u64>,
    /// Events that arrived while a response was awaited.
    events: RefCell<Vec<Value>>,
    _profile: TempDir,
}

/// A tab of it.
pub struct Tab {
    browser: Rc<Browser>,
    target: Value,
    session: String,
}

impl Browser {
    /// Starts Chromium with an empty profile.
    pub fn start() -> Rc<Browser> {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // It reads commands from descriptor 3 and writes to 4.
        command.args([
            "-c",
            "exec chromium \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null",
            "chromium",
        ]);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ]);
        command
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (to_test, from) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(out).split(0) {
                let Ok(message) = message else { return };
                let Ok(message) = serde_json::from_slice(&message) else {
                    continue;
                };
                if to_test.send(message).is_err() {
                    return;
                }
            }
        });
        let (to, last, events) = (RefCell::new(to), Cell::new(0), RefCell::default());
        let browser = Rc::new(Browser { child, to, from, last, events, _profile: profile });
        let version = browser.call(None, "Browser.getVersion", json!({}));
        println!("{}", version["product"]);
        browser
    }

    fn receive(&self, wanted: &str) -> Value {
        let missing = |why| {
            panic!("the browser does not answer {wanted}: {why}. Is Debian's `chromium` installed?")
        };
        self.from.recv_timeout(TEST_TIMEOUT).unwrap_or_else(missing)
    }

    fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let id = self.last.get() + 1;
        self.last.set(id);
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut to = self.to.borrow_mut();
        to.write_all(format!("{message}\0").as_bytes()).unwrap();
        to.flush().unwrap();
        drop(to);
        loop {
            let mut answer = self.receive(&message.to_string());
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{message}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.events.borrow_mut().push(answer);
        }
    }

    /// Opens a tab at this address, with the size of a laptop's screen.
    pub fn tab(self: &Rc<Browser>, url: &str) -> Tab {
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", attach)["sessionId"]
            .as_str()
            .unwrap()
            .to_owned();
        let tab = Tab { browser: self.clone(), target: target["targetId"].clone(), session };
        for domain in ["Page", "Runtime", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        tab.size(1280, 800);
        tab.prefer("light");
        tab.load("Page.navigate", json!({ "url": url }));
        tab
    }
}

/// A mouse whose button is held down.
#[must_use = "the button is held until `release`"]
pub struct PressedMouse<'a> {
    tab: &'a Tab,
    at: Value,
}

impl PressedMouse<'_> {
    /// Releases the button.
    pub fn release(self) {
        self.dispatch("mouseReleased");
    }

    fn dispatch(&self, kind: &str) {
        let (x, y) = (&self.at[0], &self.at[1]);
        let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
        self.tab.call("Input.dispatchMouseEvent", event);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

impl Tab {
    fn call(&self, method: &str, params: Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// Navigates and waits until the page is loaded.
    fn load(&self, method: &str, params: Value) {
        let is_load = |event: &Value| {
            event["method"] == "Page.loadEventFired" && event["sessionId"] == *self.session
        };
        self.browser.events.borrow_mut().retain(|event| !is_load(event));
        self.call(method, params);
        while !self.browser.events.borrow().iter().any(is_load) {
            let event = self.browser.receive("with a loaded page");
            self.browser.events.borrow_mut().push(event);
        }
    }

    /// Loads the page again, after a script that runs before its own.
    pub fn reload_after(&self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script }));
        self.reload();
    }

    /// Closes the tab in the browser. Dropping it leaves it open.
    pub fn close(self) {
        self.browser.call(None, "Target.closeTarget", json!({ "targetId": self.target }));
    }

    /// Loads the page again, and waits until it is loaded.
    pub fn reload(&self) {
        self.load("Page.reload", json!({}));
    }

    /// Returns the value of an expression or a promise.
    pub fn eval(&self, script: &str) -> Value {
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{script}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// Returns the time that the processor has worked for the page. It does not depend on other
    /// processes, unlike the clock.
    pub fn processor_time(&self) -> Duration {
        self.call("Performance.enable", json!({ "timeDomain": "threadTicks" }));
        let metrics = self.call("Performance.getMetrics", json!({}));
        let metrics = metrics["metrics"].as_array().unwrap();
        let task = metrics.iter().find(|metric| metric["name"] == "TaskDuration").unwrap();
        Duration::from_secs_f64(task["value"].as_f64().unwrap())
    }

    /// Waits until an expression is true: checks it now, after every change of the document, and
    /// ten times per second, since a change of the focus does not change the document.
    pub fn until(&self, condition: &str) {
        let limit = TEST_TIMEOUT.as_millis() - 5_000;
        let met = self.eval(&format!(
            "new Promise((done) => {{
                const end = (met) => {{ observer.disconnect(); clearInterval(timer); done(met); }};
                const check = () => {{ if ({condition}) end(true); }};
                const observer = new MutationObserver(check);
                const timer = setInterval(check, 100);
                const changes = {{ subtree: true, childList: true, characterData: true }};
                observer.observe(document, {{ ...changes, attributes: true }});
                setTimeout(() => end(false), {limit});
                check();
            }})"
        ));
        assert_eq!(
            met,
            true,
            "{condition} never became true; the page has:\n{}",
            self.text("body")
        );
    }

    /// Waits until the page shows this text in an element that a selector finds.
    pub fn until_text(&self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.until(&format!(
            "[...document.querySelectorAll({selector})]
                .some((one) => one.innerText.includes({text}))"
        ));
    }

    /// Returns the text that an element shows.
    pub fn text(&self, selector: &str) -> String {
        self.eval(&format!("document.querySelector({})?.innerText ?? ''", json!(selector)))
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Types a message into the page's prompt and sends it with Enter.
    pub fn say(&self, text: &str) {
        self.click("#prompt");
        self.type_text(text);
        self.press("Enter", false);
    }

    /// Returns the lines of the page's conversation.
    pub fn conversation(&self) -> Vec<String> {
        self.text("#log")
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Returns the address of the page.
    pub fn address(&self) -> String {
        self.eval("location.href").as_str().unwrap().to_owned()
    }

    /// Returns the number of elements that a selector finds.
    pub fn count(&self, selector: &str) -> u64 {
        self.eval(&format!("document.querySelectorAll({}).length", json!(selector)))
            .as_u64()
            .unwrap()
    }

    /// Clicks into the middle of an element, with the mouse, in the visible tab. If the element
    /// moves between the look at its position and the click, the click is stopped before it
    /// reaches another element, and repeated.
    pub fn click(&self, selector: &str) {
        let found = json!(selector);
        loop {
            self.eval(&format!(
                "{{
                    window.clicked = false;
                    window.stopClicks = new AbortController();
                    let one;
                    for (const kind of ['mousedown', 'mouseup', 'click']) {{
                        addEventListener(kind, (event) => {{
                            one ??= document.querySelector({found});
                            const hit = one?.contains(event.target);
                            if (!hit) event.stopImmediatePropagation(), event.preventDefault();
                            if (hit && kind === 'click') window.clicked = true;
                        }}, {{ capture: true, signal: window.stopClicks.signal }});
                    }}
                }}"
            ));
            self.press_mouse(selector).release();
            // A new page has no variable.
            let clicked = "window.stopClicks?.abort(); window.clicked ?? true";
            if self.eval(clicked) == true {
                return;
            }
        }
    }

    /// Presses the button of the mouse in the middle of an element, in the visible tab.
    pub fn press_mouse(&self, selector: &str) -> PressedMouse<'_> {
        self.call("Page.bringToFront", json!({}));
        let found = json!(selector);
        self.until(&format!(
            "document.querySelector({found})?.checkVisibility()
                && !document.querySelector({found}).disabled"
        ));
        // Its position when it has stopped moving.
        let at = self.eval(&format!(
            "new Promise((done) => {{
                let last = '';
                const check = () => {{
                    const one = document.querySelector({found});
                    one?.scrollIntoView({{ block: 'center' }});
                    const box = one?.getBoundingClientRect();
                    const at = box ? [box.x + box.width / 2, box.y + box.height / 2] : [];
                    const hit = one?.contains(document.elementFromPoint(...at));
                    if (hit && String(at) === last) return done(at);
                    last = String(at);
                    requestAnimationFrame(check);
                }};
                check();
            }})"
        ));
        let pressed = PressedMouse { tab: self, at };
        pressed.dispatch("mousePressed");
        pressed
    }

    /// Types into the focused element.
    pub fn type_text(&self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses a key, with Alt if `alt`.
    pub fn press(&self, key: &str, alt: bool) {
        self.press_with(key, u8::from(alt));
    }

    /// Presses a key with Control.
    pub fn press_control(&self, key: &str) {
        self.press_with(key, 2);
    }

    fn press_with(&self, key: &str, modifiers: u8) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            "ArrowDown" => 40,
            " " => 32,
            other => panic!("the code of {other} is not known here"),
        };
        let mut event =
            json!({ "type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        event["modifiers"] = modifiers.into();
        let text = match key {
            "Enter" => "\r",
            " " => " ",
            _ => "",
        };
        if !text.is_empty() {
            event["type"] = "keyDown".into();
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Sets the size of the page, in pixels.
    pub fn size(&self, width: u32, height: u32) {
        let metrics = json!({
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": width < 500,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Emulates a touch screen.
    pub fn touch(&self) {
        let touch = json!({ "enabled": true, "maxTouchPoints": 5 });
        self.call("Emulation.setTouchEmulationEnabled", touch);
        self.until("matchMedia('(pointer: coarse)').matches");
    }

    /// Sets the preferences of the user: `dark` or `light`, and no motion.
    pub fn prefer(&self, scheme: &str) {
        self.media(scheme, "reduce");
    }

    /// Sets the preferences of the user, with motion reduced or not.
    pub fn media(&self, scheme: &str, motion: &str) {
        let colours = json!({ "name": "prefers-color-scheme", "value": scheme });
        let motion = json!({ "name": "prefers-reduced-motion", "value": motion });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [colours, motion] }));
    }

    /// Saves a screenshot, for a person to check.
    pub fn screenshot(&self, name: &str) {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(shot["data"].as_str().unwrap())
            .unwrap();
        let folder = target().join("screenshots");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    /// Returns exceptions, and refusals by the page's policy.
    pub fn console_errors(&self) -> Vec<String> {
        let events = self.browser.events.borrow();
        let here = events.iter().filter(|event| event["sessionId"] == *self.session);
        here.filter_map(|event| match event["method"].as_str()? {
            "Runtime.exceptionThrown" => Some(event["params"].to_string()),
            "Log.entryAdded" if event["params"]["entry"]["source"] == "security" => {
                Some(event["params"].to_string())
            }
            _ => None,
        })
        .collect()
    }
}
