//! Images of a message: pasted, dropped and chosen, drawn, sent, and shown in the conversation.

use loopwright_test_support::browser::Tab;
use serde_json::json;

use crate::fixture::Fixture;

/// Makes a picture of this size in the page, and lets the user `paste`, `drop` or `choose` it.
fn give(tab: &Tab, how: &str, side: u32, kind: &str) {
    tab.eval(&format!(
        "(async () => {{
            const canvas = new OffscreenCanvas({side}, {side});
            const context = canvas.getContext('2d');
            const pixels = context.createImageData({side}, {side});
            for (let at = 0; at < pixels.data.length; at++) pixels.data[at] = Math.random() * 256;
            context.putImageData(pixels, 0, 0);
            const blob = await canvas.convertToBlob({{ type: 'image/png' }});
            const files = new DataTransfer();
            files.items.add(new File([blob], 'picture', {{ type: {kind} }}));
            const more = {{ bubbles: true, cancelable: true }};
            const prompt = document.querySelector('#prompt');
            if ({how} === 'paste') {{
                const event = new ClipboardEvent('paste', {{ ...more, clipboardData: files }});
                prompt.dispatchEvent(event);
            }} else if ({how} === 'drop') {{
                prompt.dispatchEvent(new DragEvent('drop', {{ ...more, dataTransfer: files }}));
            }} else {{
                document.querySelector('#files').files = files.files;
                document.querySelector('#files').dispatchEvent(new Event('change'));
            }}
        }})()",
        how = json!(how),
        kind = json!(kind),
    ));
}

/// C251: The page takes images in three ways, shows them before and after they are sent, and makes
/// large ones smaller.
#[test]
fn images_are_pasted_dropped_and_chosen() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    for (count, how) in ["paste", "drop", "choose"].into_iter().enumerate() {
        give(&tab, how, 40, "image/png");
        tab.until(&format!("document.querySelectorAll('#attached img').length === {}", count + 1));
    }
    tab.click("#attached li:nth-child(2) button");
    tab.until("document.querySelectorAll('#attached img').length === 2");
    give(&tab, "paste", 1_200, "image/png");
    tab.until("document.querySelector('#attached [src^=\"data:image/jpeg\"]')");
    tab.screenshot("images");
    tab.say("What is it?");
    let request = fixture.request();
    let content = request.body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    let urls = content.as_array().unwrap().iter();
    let urls: Vec<&str> =
        urls.filter_map(|part| part["image_url"]["url"].as_str()?.split(',').next()).collect();
    let [png, jpeg] = ["data:image/png;base64", "data:image/jpeg;base64"];
    assert_eq!(urls, [png, png, jpeg], "{}", content[0]);
    request.say("Noise.");
    tab.until_text(".assistant", "Noise.");
    assert_eq!(tab.count(".user img"), 3);
    assert_eq!(tab.count("#attached img"), 0);
    tab.reload();
    tab.until("document.querySelectorAll('.user img').length === 3");
    tab.until("[...document.querySelectorAll('.user img')].every((one) => one.naturalWidth > 0)");
    give(&tab, "paste", 40, "image/png");
    tab.until("document.querySelectorAll('#attached img').length === 1");
    tab.click("#send"); // without a text
    fixture.request().say("More noise.");
    tab.until_text(".assistant:last-child", "More noise.");
    assert_eq!(tab.count(".user img"), 4);
    give(&tab, "paste", 40, "image/bmp");
    tab.until_text("#problem", "is no PNG, JPEG, GIF or WebP image");
    assert_eq!(tab.console_errors(), Vec::<String>::new());
}
