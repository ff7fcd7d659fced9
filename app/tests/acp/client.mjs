// The client of the tests in main.rs: `node client.mjs TEST BINARY DIRECTORY MODEL`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [test, binary, cwd, model] = process.argv.slice(2);
const { agent: agentMethods, client: clientMethods } = acp.methods;
const notes = () => readFileSync(`${cwd}/notes.txt`, "utf8");

// Starts the binary and runs `work` with its connection, the updates so far and the process.
async function connect(work, { permit, elicit, capabilities = {} } = {}) {
  const args = ["acp", "--model", "openai/x", "--base-url", model];
  const child = spawn(binary, args, { stdio: ["pipe", "pipe", "inherit"] });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const updates = [];
  const waiting = [];
  const app = acp
    .client({ name: "tests" })
    .onRequest(clientMethods.session.requestPermission, ({ params }) => permit(params))
    .onRequest(clientMethods.elicitation.create, ({ params }) => elicit(params))
    .onNotification(clientMethods.session.update, ({ params }) => {
      updates.push(params.update);
      for (const check of [...waiting]) check();
    });
  // Resolves when an update fits. The library handles updates after a response that followed them.
  const until = (fits) =>
    new Promise((resolve) => {
      const check = () => {
        if (!updates.some(fits)) return;
        const at = waiting.indexOf(check);
        if (at >= 0) waiting.splice(at, 1);
        resolve();
      };
      waiting.push(check);
      check();
    });
  try {
    await app.connectWith(stream, async (ctx) => {
      const request = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: capabilities };
      const initialized = await ctx.request(agentMethods.initialize, request);
      assert.equal(initialized.protocolVersion, 1);
      assert.equal(initialized.agentInfo.name, "loopwright");
      assert.equal(initialized.agentCapabilities.loadSession, true);
      await work({ ctx, updates, until, child });
    });
  } finally {
    child.stdin.destroy();
    child.kill("SIGKILL");
  }
}

const start = (ctx) => ctx.request(agentMethods.session.new, { cwd, mcpServers: [] });
const text = (text) => [{ type: "text", text }];
const prompt = (ctx, sessionId, blocks) =>
  ctx.request(agentMethods.session.prompt, { sessionId, prompt: blocks });
const of = (updates, kind) => updates.filter((update) => update.sessionUpdate === kind);
const said = (updates) =>
  of(updates, "agent_message_chunk").map((update) => update.content.text).join("");
const select = (params, kind) => {
  const { optionId } = params.options.find((option) => option.kind === kind);
  return { outcome: { outcome: "selected", optionId } };
};

const plans = (updates) =>
  of(updates, "plan").map((update) => update.entries.map((it) => `${it.status} ${it.content}`));

const tests = {
  plan: async () => {
    let session;
    const expected = [
      ["in_progress Read", "pending Fix"],
      ["completed Read", "in_progress Fix"],
    ];
    await connect(async ({ ctx, updates, until }) => {
      session = (await start(ctx)).sessionId;
      assert.equal((await prompt(ctx, session, text("Fix it."))).stopReason, "end_turn");
      await until(() => said(updates) === "Read.");
      assert.deepEqual(plans(updates), expected);
      assert.equal(of(updates, "tool_call")[0].kind, "think");
    });
    await connect(async ({ ctx, updates, until }) => {
      await ctx.request(agentMethods.session.load, { sessionId: session, cwd, mcpServers: [] });
      await until(() => plans(updates).length === 2);
      assert.deepEqual(plans(updates), expected);
    });
  },

  turn: () =>
    connect(async ({ ctx, updates, until }) => {
      const { sessionId, modes } = await start(ctx);
      assert.equal(modes.currentModeId, "ask");
      await until((update) => update.sessionUpdate === "available_commands_update");
      const link = { type: "resource_link", name: "Cargo.toml", uri: `file://${cwd}/Cargo.toml` };
      const turn = await prompt(ctx, sessionId, [...text("Read it: "), link]);
      assert.equal(turn.stopReason, "end_turn");
      await until(() => said(updates) === "I read it.It counts sheep.");
      assert.equal(of(updates, "agent_thought_chunk")[0].content.text, "A manifest.");
      const [call] = of(updates, "tool_call");
      assert.equal(call.kind, "read");
      assert.equal(call.locations[0].path, `${cwd}/Cargo.toml`);
      const states = of(updates, "tool_call_update").map((update) => update.status);
      assert.deepEqual(states, ["in_progress", "completed"]);
      assert.equal((await prompt(ctx, sessionId, text("More."))).stopReason, "max_tokens");
    }),

  permission: () => {
    const asked = [];
    const permit = (params) => {
      asked.push(params);
      return select(params, asked.length === 1 ? "allow_once" : "reject_once");
    };
    return connect(
      async ({ ctx, updates, until }) => {
        const { sessionId } = await start(ctx);
        const turn = await prompt(ctx, sessionId, text("Translate."));
        assert.equal(turn.stopReason, "end_turn");
        assert.equal(asked.length, 2);
        await until(() => said(updates) === "Done.");
        const { toolCall } = asked[0];
        const diff = toolCall.content.find((content) => content.type === "diff");
        assert.equal(diff.path, `${cwd}/notes.txt`);
        assert.deepEqual([diff.oldText, diff.newText], ["one\ntwo\nthree\n", "one\nzwei\nthree\n"]);
        const calls = of(updates, "tool_call");
        assert.equal(calls[0].toolCallId, toolCall.toolCallId);
        const ends = of(updates, "tool_call_update").filter(({ status }) => status !== "in_progress");
        assert.deepEqual(ends.map(({ status }) => status), ["completed", "failed"]);
        assert.equal(ends[0].content[0].type, "diff");
      },
      { permit },
    );
  },

  changed: () => {
    const asked = [];
    const permit = (params) => {
      asked.push(params.toolCall.content.find((content) => content.type === "diff").newText);
      if (asked.length === 1) writeFileSync(`${cwd}/notes.txt`, "one\ntwo, theirs\nthree\n");
      return select(params, "allow_once");
    };
    return connect(
      async ({ ctx }) => {
        const { sessionId } = await start(ctx);
        const turn = await prompt(ctx, sessionId, text("Translate."));
        assert.equal(turn.stopReason, "end_turn");
        assert.deepEqual(asked, ["one\nzwei\nthree\n", "one\nzwei, theirs\nthree\n"]);
      },
      { permit },
    );
  },

  modes: () => {
    const asked = [];
    const permit = (params) => {
      asked.push(params.toolCall.name);
      if (params.toolCall.title === "Carry out this plan?") {
        const { optionId } = params.options.find((option) => option.name === "no");
        return { outcome: { outcome: "selected", optionId } };
      }
      return select(params, asked.length === 1 ? "allow_once" : "allow_always");
    };
    return connect(
      async ({ ctx }) => {
        const { sessionId } = await start(ctx);
        const setMode = (modeId) =>
          ctx.request(agentMethods.session.setMode, { sessionId, modeId });
        await setMode("accept_edits");
        await prompt(ctx, sessionId, text("Translate."));
        assert.deepEqual(asked, ["execute_command"]);
        await setMode("ask");
        await prompt(ctx, sessionId, text("Translate the rest."));
        assert.deepEqual(asked, ["execute_command", "edit_file"]);
        await assert.rejects(setMode("none"), (error) => error.code === -32602);
        await setMode("plan");
        await prompt(ctx, sessionId, text("Do it."));
        assert.equal(asked.length, 3);
      },
      { permit },
    );
  },

  cancel: () => {
    let cancel;
    const permit = async () => {
      await cancel();
      return { outcome: { outcome: "cancelled" } };
    };
    return connect(
      async ({ ctx, until }) => {
        const { sessionId } = await start(ctx);
        cancel = () => ctx.notify(agentMethods.session.cancel, { sessionId });
        await ctx.request(agentMethods.session.setMode, { sessionId, modeId: "accept_all" });
        const turn = prompt(ctx, sessionId, text("Sleep."));
        await until((update) => update.status === "in_progress");
        await cancel();
        assert.equal((await turn).stopReason, "cancelled");
        await until((update) => update.status === "failed");
        await ctx.request(agentMethods.session.setMode, { sessionId, modeId: "ask" });
        const asking = await prompt(ctx, sessionId, text("Translate."));
        assert.equal(asking.stopReason, "cancelled");
        assert.equal((await prompt(ctx, sessionId, text("Hello?"))).stopReason, "end_turn");
      },
      { permit },
    );
  },

  load: async () => {
    const permit = (params) => select(params, "allow_once");
    let id;
    const killed = connect(
      async ({ ctx, until, child }) => {
        id = (await start(ctx)).sessionId;
        await prompt(ctx, id, text("Translate."));
        prompt(ctx, id, text("Translate more.")).catch(() => {});
        await until((update) => update.rawInput?.new_string === "drei");
        child.kill("SIGKILL");
        await new Promise((resolve) => child.on("exit", resolve));
      },
      { permit: (params) => (notes().includes("zwei") ? new Promise(() => {}) : permit(params)) },
    );
    await killed.catch(({ message }) => assert.equal(message, "ACP connection closed"));
    await connect(
      async ({ ctx, updates, until }) => {
        const { sessions } = await ctx.request(agentMethods.session.list, { cwd });
        assert.deepEqual(sessions.map(({ sessionId }) => sessionId), [id]);
        assert.equal(sessions[0].title, "Translate.");
        const load = { sessionId: id, cwd, mcpServers: [] };
        const { modes } = await ctx.request(agentMethods.session.load, load);
        assert.equal(modes.currentModeId, "ask");
        await until(() => said(updates).includes("/continue"));
        const asked = of(updates, "user_message_chunk").map((update) => update.content.text);
        assert.deepEqual(asked, ["Translate.", "Translate more."]);
        assert.ok(said(updates).startsWith("Edited."), said(updates));
        assert.equal(of(updates, "tool_call").length, 2);
        const turn = await prompt(ctx, id, text("/continue"));
        assert.equal(turn.stopReason, "end_turn");
        await until(() => said(updates).endsWith("Edited, too."));
        await ctx.request(agentMethods.session.close, { sessionId: id });
        await assert.rejects(prompt(ctx, id, text("Hi")), (error) => error.code === -32002);
        const sent = updates.length;
        await ctx.request(agentMethods.session.resume, { sessionId: id, cwd });
        assert.equal(of(updates.slice(sent), "user_message_chunk").length, 0);
        await prompt(ctx, id, text("Hi"));
        const none = { sessionId: "none", cwd, mcpServers: [] };
        const missing = ctx.request(agentMethods.session.load, none);
        await assert.rejects(missing, (error) => error.code === -32002);
      },
      { permit },
    );
  },

  forms: () => {
    const forms = [];
    const elicit = (params) => {
      forms.push(params);
      return { action: "accept", content: { answer: forms.length === 1 ? "green" : "blue" } };
    };
    return connect(
      async ({ ctx, updates, until }) => {
        const { sessionId } = await start(ctx);
        await prompt(ctx, sessionId, text("Paint."));
        assert.deepEqual(forms[0].requestedSchema.properties.answer.enum, ["red", "blue"]);
        assert.equal(forms.length, 2);
        assert.ok(forms[1].message.includes("`green` is not one of the options"));
        await until(() => said(updates) === "Blue it is.");
      },
      { elicit, capabilities: { elicitation: { form: {} } } },
    );
  },

  choices: () => {
    const permit = (params) => {
      assert.equal(params.toolCall.title, "Which colour?");
      const { optionId } = params.options.find((option) => option.name === "blue");
      return { outcome: { outcome: "selected", optionId } };
    };
    return connect(
      async ({ ctx, updates, until }) => {
        const { sessionId } = await start(ctx);
        await prompt(ctx, sessionId, text("Paint."));
        await until(() => said(updates) === "Blue it is.");
      },
      { permit },
    );
  },
};

await tests[test]();
