// A remote agent, with the official server of npm, `@a2a-js/sdk`. It prints its address, and runs
// until it is killed.
import express from "express";
import { AgentCard, Role, TaskState } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { UserBuilder, agentCardHandler, jsonRpcHandler } from "@a2a-js/sdk/server/express";

const [token] = process.argv.slice(2);
const app = express();
app.use((request, response, next) =>
  request.headers.authorization === `Bearer ${token}` ? next() : response.sendStatus(401));
const server = app.listen(0, "127.0.0.1", () => {
  const address = `http://127.0.0.1:${server.address().port}`;
  const card = AgentCard.fromJSON({
    name: "Flock Keeper", description: "Knows the flock.", version: "1",
    supportedInterfaces: [
      { url: `${address}/rpc`, protocolBinding: "JSONRPC", protocolVersion: "1.0" },
    ],
    capabilities: { streaming: true },
    defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
    skills: [{ id: "count", name: "count", description: "Counts.", tags: ["sheep"] }],
  });
  const text = (value) => ({
    content: { $case: "text", value }, metadata: undefined, filename: "", mediaType: "",
  });
  const executor = {
    async execute({ taskId, contextId, userMessage }, bus) {
      const asked = userMessage.parts.map((part) => part.content.value).join("");
      const status = (state, said) => ({
        state, timestamp: new Date().toISOString(),
        message: said && {
          messageId: `${taskId}-${state}`, taskId, contextId, role: Role.ROLE_AGENT,
          parts: [text(said)], metadata: undefined, extensions: [], referenceTaskIds: [],
        },
      });
      const task = (state, said) => AgentEvent.task({
        id: taskId, contextId, status: status(state, said), artifacts: [], history: [],
        metadata: undefined,
      });
      bus.publish(task(TaskState.TASK_STATE_WORKING));
      const update = (state, said) => bus.publish(AgentEvent.statusUpdate({
        taskId, contextId, status: status(state, said), metadata: undefined,
      }));
      if (asked === "Hang.") {
        console.log("hangs");
        return new Promise(() => {});
      }
      if (asked === "Fail.") {
        update(TaskState.TASK_STATE_FAILED, "The wolf came.");
      } else if (asked === "Which?") {
        update(TaskState.TASK_STATE_INPUT_REQUIRED, "Which field?");
      } else {
        bus.publish(AgentEvent.artifactUpdate({
          taskId, contextId, append: false, lastChunk: true, metadata: undefined,
          artifact: {
            artifactId: "answer", name: "", description: "", parts: [text(`To ${asked} nine.`)],
            metadata: undefined, extensions: [],
          },
        }));
        update(TaskState.TASK_STATE_COMPLETED);
      }
      bus.finished();
    },
    async cancelTask(taskId, bus) {
      console.log(`cancelled`);
      bus.publish(AgentEvent.statusUpdate({
        taskId, contextId: "", metadata: undefined,
        status: { state: TaskState.TASK_STATE_CANCELED, timestamp: undefined, message: undefined },
      }));
      bus.finished();
    },
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
  const userBuilder = UserBuilder.noAuthentication;
  app.use("/rpc", jsonRpcHandler({ requestHandler, userBuilder }));
  console.log(address);
});
