import { checks as local } from "./local.js";
import { checks as services } from "./services.js";

export const all = { local, services };
