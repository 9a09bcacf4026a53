// Reads the control topic and acts on each command once: node examples/consume_commands.mjs FOLDER, or lines on standard input.
import { readdirSync, readFileSync } from "node:fs";

const folder = process.argv[2];
const files = folder ? readdirSync(folder).filter((name) => /^segment-\d+\.jsonl$/.test(name)).sort().map((name) => `${folder}/${name}`) : [0];
const done = new Set();
for (const line of files.flatMap((file) => readFileSync(file, "utf8").split("\n").slice(0, -1))) { // text after the last newline is still being written
  let command;
  try { command = JSON.parse(line); } catch { continue; } // a torn line: its writer died
  if (command.v !== 1 || !command.action || done.has(command.id)) continue; // a repeated id is the same command
  done.add(command.id);
  // Act on the command here, unless command.expires_at_ms has passed.
  console.log(command.action, command.bundle, command.source, "->", command.destination ?? "anywhere:", command.reason.text);
}
