import { checks as local } from "./local.js";
import { checks as services } from "./services.js";
import { checks as shuffled } from "./shuffled.js";

export const all = { local, services, shuffled };
