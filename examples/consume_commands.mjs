// Reads the control topic and acts on each command once: node examples/consume_commands.mjs FOLDER, or lines on standard input.
import { readdirSync, readFileSync } from "node:fs";

const folder = process.argv[2];
const files = folder ? readdirSync(folder).filter((name) => /^segment-\d+\.jsonl$/.test(name)).sort().map((name) => `${folder}/${name}`) : [0];
const done = new Set();
for (const line of files.flatMap((file) => readFileSync(file, "utf8").split("\n").slice(0, -1))) { // what follows the last newline is still being written
  let command;
  try { command = JSON.parse(line); } catch { continue; } // a writer died in the middle of it
  if (command.v !== 1 || !command.action || done.has(command.id)) continue; // the same id again is the same command again
  done.add(command.id);
  // Here you would act, unless command.expires_at_ms has passed.
  console.log(command.action, command.bundle, command.source, "->", command.destination ?? "anywhere:", command.reason.text);
}
