-- Made by `make generate` from operator/hoodie_operator/api/states.py. Do not edit.
-- The health of every kind of hudi.dev, for Argo CD: the first condition that is True decides.
local order = {
  {condition = "Reconciling", health = "Progressing"},
  {condition = "Stalled", health = "Degraded"},
  {condition = "Suspended", health = "Suspended"},
  {condition = "Ready", health = "Healthy"},
}

local health = {status = "Progressing", message = "The operator has not seen this generation yet"}
if obj.status == nil or obj.status.conditions == nil then
  return health
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local conditions = {}
for _, condition in ipairs(obj.status.conditions) do
  conditions[condition.type] = condition
end
for _, decides in ipairs(order) do
  local condition = conditions[decides.condition]
  if condition ~= nil and condition.status == "True" then
    health.status = decides.health
    health.message = condition.reason .. ": " .. condition.message
    return health
  end
end
return health
